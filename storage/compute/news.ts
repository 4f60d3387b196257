/** News of the compute service (proto/compute/events.ts): the database tells all nodes when they are committed. */

import { z } from 'zod';
import { jsonOf } from '../../lib/input.ts';
import type { ComputeNews, ComputeNewsSource } from '../../proto/compute/events.ts';
import { statusSchema } from '../../proto/compute/fields.ts';
import type { Db, Queries } from '../db.ts';

const CHANNEL = 'compute';

const newsSchema = z.union([
  z.object({ kind: z.literal('key'), userId: z.string(), fingerprint: z.string() }),
  z.object({ kind: z.literal('user'), userId: z.string() }),
  z.object({ kind: z.literal('status'), containerId: z.string(), status: statusSchema }),
  z.object({ kind: z.enum(['ssh', 'ingress', 'stopped', 'gone']), containerId: z.string() }),
]);

/** The news of `db`. */
export function computeNews(db: Db): ComputeNewsSource {
  return { onNews: (handler) => db.listen(CHANNEL, (payload) => handler(read(payload))) };
}

/** '' comes whenever notifications may have been missed; another version's news is news too. */
function read(payload: string): ComputeNews {
  return newsSchema.safeParse(jsonOf(payload)).data ?? { kind: 'all' };
}

/** Tells it when `tx` commits. */
export function tellCompute(tx: Queries, news: Exclude<ComputeNews, { kind: 'all' }>): Promise<void> {
  return tx.notify(CHANNEL, JSON.stringify(news));
}
