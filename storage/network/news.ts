/**
 * News of domain mappings (proto/network/events.ts): told by the database at the commit that makes them, to all nodes.
 */
import { z } from 'zod';
import { jsonOf } from '../../lib/input.ts';
import type { NetworkNews, NetworkNewsSource } from '../../proto/network/events.ts';
import type { Db, Queries } from '../db.ts';

const CHANNEL = 'network';

const newsSchema = z.object({
  kind: z.enum(['verified', 'removed', 'changed']),
  mappingId: z.string(),
  hostname: z.string(),
});

/** The news of `db`. */
export function networkNews(db: Db): NetworkNewsSource {
  return { onNews: (handler) => db.listen(CHANNEL, (payload) => handler(read(payload))) };
}

/** '' comes whenever notifications may have been missed; another version's news is news too. */
function read(payload: string): NetworkNews {
  return newsSchema.safeParse(jsonOf(payload)).data ?? { kind: 'all' };
}

/** Tells it when `tx` commits. */
export function tellNetwork(tx: Queries, news: Exclude<NetworkNews, { kind: 'all' }>): Promise<void> {
  return tx.notify(CHANNEL, JSON.stringify(news));
}
