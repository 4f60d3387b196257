/** Timers of entities in the database, whose clock is the only one that counts. */
import { z } from 'zod';
import type { ShardLease } from '../../proto/ports/placement.ts';
import type { DueTimer, TimerName, TimerRow, TimerShards, TimerStore } from '../../proto/ports/timers.ts';
import type { Db } from '../db.ts';
import { fenced } from '../fenced.ts';
import type { Queries } from '../queries.ts';
import { fieldsOf } from '../rows.ts';

/** The index of timers divides them into so many parts by their hash. */
const PARTS = 256;
/** Timers that are read of one part at least, if that many are due. */
const LEAST_OF_PART = 32;

const dueRow = z.object({
  service: z.string(),
  kind: z.string(),
  id: z.string(),
  name: z.string(),
  key: z.string(),
  at: z.number(),
  message: z.unknown(),
  inMs: z.number(),
  tries: z.int(),
});

/** Sets a timer, in the transaction with which it should come and go. The caller may write for the entity. */
export async function setTimer(tx: Queries, timer: TimerRow): Promise<void> {
  const { service, kind, id, name, key, at, message } = timer;
  await tx.run(SET, [service, kind, id, name, key, at, JSON.stringify(message)]);
}

const SET = `
  insert into entity_timers (service, kind, id, name, key, at, due, message)
  values ($1, $2, $3, $4, $5, to_timestamp($6 / 1000.0), to_timestamp($6 / 1000.0), $7)
  on conflict (kind, id, name) do update set service = excluded.service, key = excluded.key, at = excluded.at,
    due = excluded.due, message = excluded.message, tries = 0`;

// The index is by part and time: each part is a few rows of it.
const DUE = `
  select t.service, t.kind, t.id, t.name, t.key, (extract(epoch from t.at) * 1000)::float8 as at, t.message, t.tries,
    (extract(epoch from t.due - now()) * 1000)::float8 as "inMs"
  from unnest($1::text[], $2::int[], $3::int[], $4::text[]) as h (service, part, count, shards)
  cross join lateral (
    select * from entity_timers t
    where t.service = h.service and t.hash % ${PARTS} = h.part and t.due <= now() + $5 * interval '1 millisecond'
      and (h.shards is null or t.hash % h.count = any(h.shards::int[]))
    order by t.due limit $6) t
  order by t.due limit $7`;

const END = `
  delete from entity_timers t
  using unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::int[], $7::bigint[])
      as e (kind, id, name, key, service, shard, epoch)
    join placement_shards s on (s.service, s.shard, s.epoch) = (e.service, e.shard, e.epoch) and s.owner is not null
  where (t.kind, t.id, t.name, t.key) = (e.kind, e.id, e.name, e.key)`;

/** The timers of a cluster on one database. Kinds and ids are of letters that are one UTF-16 code unit. */
export function timerStore(db: Db): TimerStore {
  return {
    async set(lease: ShardLease, timer: TimerRow): Promise<void> {
      await fenced(db, lease, (tx) => setTimer(tx, timer));
    },

    async cancel(lease: ShardLease, { kind, id, name }: TimerName): Promise<void> {
      await fenced(db, lease, (tx) =>
        tx.run('delete from entity_timers where (kind, id, name) = ($1, $2, $3)', [kind, id, name]),
      );
    },

    due(held: readonly TimerShards[], withinMs: number, limit: number): Promise<DueTimer[]> {
      const probes = held.flatMap(probesOf);
      const ofEach = Math.max(LEAST_OF_PART, Math.ceil((2 * limit) / Math.max(1, probes.length)));
      return db.many(dueRow, DUE, [...fieldsOf(probes, 'service', 'part', 'count', 'shards'), withinMs, ofEach, limit]);
    },

    async end(handled): Promise<void> {
      const timers = handled.map(({ timer }) => timer);
      const leases = handled.map(({ lease }) => lease);
      const ended = fieldsOf(timers, 'kind', 'id', 'name', 'key');
      await db.run(END, [...ended, ...fieldsOf(leases, 'service', 'shard', 'epoch')]);
    },

    async postpone({ kind, id, name, key }: TimerRow, ms: number): Promise<void> {
      await db.run(
        `update entity_timers set due = now() + $5 * interval '1 millisecond', tries = tries + 1
         where (kind, id, name, key) = ($1, $2, $3, $4)`,
        [kind, id, name, key, ms],
      );
    },
  };
}

/** The parts of the index in which timers of these shards are, with those of the shards that are in each. */
function probesOf({ service, shards, count }: TimerShards) {
  const step = greatestCommonDivisor(count, PARTS);
  const byRest = new Map<number, number[]>();
  for (const shard of shards) {
    const own = byRest.get(shard % step);
    if (own === undefined) byRest.set(shard % step, [shard]);
    else own.push(shard);
  }
  return Array.from({ length: PARTS }, (_, part) => part).flatMap((part) => {
    const own = byRest.get(part % step);
    if (own === undefined) return [];
    return [{ service, part, count, shards: own.length === count / step ? null : `{${own}}` }];
  });
}

/** Of two whole numbers. */
export const greatestCommonDivisor = (a: number, b: number): number => (b === 0 ? a : greatestCommonDivisor(b, a % b));
