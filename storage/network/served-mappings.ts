/** SQL of the mappings that are served, as gateways follow them. */
import { z } from 'zod';
import { cacheModeSchema, shownCache } from '../../proto/gateway/cache-mode.ts';
import type { NetworkNewsSource } from '../../proto/network/events.ts';
import type { MappingSource } from '../../proto/ports/acme.ts';
import type { Queries } from '../db.ts';
import { columnsOf } from '../rows.ts';

const servedRow = z
  .object({ hostname: z.string(), containerId: z.string(), targetPort: z.number(), cache: cacheModeSchema })
  .transform(({ cache, ...mapping }) => ({ ...mapping, ...shownCache(cache) }));

const COLUMNS = columnsOf(servedRow.in, { hostname: 'domain' });
const SERVED = `select ${COLUMNS} from domain_mappings where status = 'verified'`;

/** Verified mappings as a gateway follows them. */
export function mappingSource(db: Queries, news: NetworkNewsSource): MappingSource {
  return {
    named: (hostnames) => db.many(servedRow, `${SERVED} and domain = any($1::text[])`, [hostnames]),
    after: (hostname, limit) =>
      db.many(servedRow, `${SERVED} and domain > $1 order by domain limit $2`, [hostname, limit]),
    watch: (onChange) => news.onNews((item) => onChange(item.kind === 'all' ? undefined : item.hostname)),
  };
}
