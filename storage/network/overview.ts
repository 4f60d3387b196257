/** SQL that shows all mappings of the platform: to its operator, and in the monitor's graph. */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { orUndefined } from '../rows.ts';

const row = z.object({
  id: z.string(),
  hostname: z.string(),
  username: z.string(),
  containerId: z.string(),
  targetPort: z.number(),
  status: z.enum(['pending', 'verified', 'failed']),
  /** What its owner is told; '' when there is nothing to say. */
  detail: z.string(),
  /** End of the certificate that is served; undefined without one. */
  certifiedUntil: orUndefined(z.date()),
  createdAt: z.date(),
});

/** A mapping with its owner and its certificate. */
export type MappingOverview = z.output<typeof row>;

/** At most `limit` mappings, by hostname. */
export function allMappings(db: Queries, limit: number): Promise<MappingOverview[]> {
  return db.many(
    row,
    `select m.id, m.domain as hostname, coalesce(u.username, '') as username, m.container_id as "containerId",
       m.target_port as "targetPort", m.status, c.not_after as "certifiedUntil", m.created_at as "createdAt",
       case m.status when 'verified' then m.certificate_detail else m.detail end as detail
     from domain_mappings m left join known_users u on u.id = m.user_id
     left join certificates c on c.hostname = m.domain and m.status = 'verified' and c.chain is not null
     order by m.domain collate "C" limit $1`,
    [limit],
  );
}
