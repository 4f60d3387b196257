/** Leases of nodes and shards in the database, whose clock is the only one that counts. */
import { z } from 'zod';
import {
  type BeatResult,
  type Known,
  type LeaseStore,
  NODE_FORMAT,
  type NodeInfo,
  PlacementError,
  type Shard,
  type ShardLease,
} from '../../proto/ports/placement.ts';
import type { DirectQueries } from '../queries.ts';
import { fieldsOf } from '../rows.ts';

/** A node whose lease ended so long ago is forgotten; until then `troupe nodes` shows that it is gone. */
const FORGET_AFTER = "interval '10 minutes'";

/**
 * Whether the lease in a row lives. One that seems to last longer than any lease is from before the server's clock was
 * put back: its node, if it lives, renews it within a beat; if it does not, it must not hold its shards for an hour.
 */
const lives = (expiresAt: string) => `(${expiresAt} > now() and ${expiresAt} <= now() + interval '10 minutes')`;

const nodeRow = z.object({
  id: z.string(),
  roles: z.array(z.string()),
  version: z.string(),
  address: z.string(),
  draining: z.boolean(),
  weight: z.number(),
});
const viewRow = z.object({
  stamp: z.string(),
  mark: z.string(),
  drainAsked: z.boolean(),
  nodes: z.array(nodeRow).nullable(),
  shards: z
    .array(z.tuple([z.string(), z.int(), z.string().nullable(), z.int()]))
    .transform((rows) =>
      rows.map(([service, shard, owner, epoch]) => ({ service, shard, owner: owner ?? undefined, epoch })),
    ),
});
const leaseRow = z.object({ service: z.string(), shard: z.int(), epoch: z.int() });
const releasedRow = leaseRow.extend({ freed: z.boolean() });
const takenRow = leaseRow.extend({ count: z.int() });

// `changed` of a row is the transaction that wrote it; all transactions below a snapshot's xmin had ended when it was
// taken, so whatever a reader did not see then has a `changed` of at least that xmin. No clock, no gap.
const BEAT = `
  with mine as (
    insert into placement_nodes as n (id, roles, version, address, draining, expires_at, format, key_ids, weight)
    values ($1, $2, $3, $4, $5, now() + $6 * interval '1 millisecond', ${NODE_FORMAT}, $9, $10)
    on conflict (id) do update set roles = excluded.roles, draining = excluded.draining,
      expires_at = excluded.expires_at
    returning drain_asked
  ), forgotten as (
    delete from placement_nodes where id <> $1 and expires_at < now() - ${FORGET_AFTER}
  ), live as materialized (
    select id, roles, version, address, draining, weight from placement_nodes where id <> $1 and ${lives('expires_at')}
  ), seen as materialized (
    select count(*) || ':' || coalesce(sum(hashtextextended(id || draining || roles::text || weight, 0)), 0) as stamp
    from live
  )
  select stamp, pg_snapshot_xmin(pg_current_snapshot())::text as mark,
    case when stamp <> $7 then coalesce((select json_agg(live) from live), '[]') end as nodes,
    coalesce((select json_agg(json_build_array(service, shard, owner, epoch)) from placement_shards
      where changed >= $8::text::xid8), '[]') as shards,
    (select drain_asked from mine) as "drainAsked"
  from seen`;

// The lease of an owner is judged at now(), which lies before the snapshot it is read from: one that is being renewed
// meanwhile never looks as if it were over because this statement took its time. Shards that a writer has locked are
// left for the next time.
const TAKE = `
  with odd as materialized (
    select service, shard, epoch, count from placement_shards where service = any($2::text[]) and count <> $4 limit 1
  ), wanted as (
    select service, shard from unnest($2::text[], $3::int[]) as w (service, shard)
    where exists (select from placement_nodes where id = $1 and ${lives('expires_at')}) and not exists (select from odd)
  ), free as materialized (
    select s.service, s.shard from placement_shards s join wanted using (service, shard)
    where s.owner is null or s.owner = $1
      or not exists (select from placement_nodes n where n.id = s.owner and ${lives('n.expires_at')})
    order by s.service, s.shard for no key update of s skip locked
  ), taken as (
    update placement_shards s set owner = $1, epoch = s.epoch + 1, changed = pg_current_xact_id()
    from free where (s.service, s.shard) = (free.service, free.shard)
    returning s.service, s.shard, s.epoch, s.count
  ), made as (
    insert into placement_shards (service, shard, count, owner, epoch)
    select service, shard, $4, $1, 1 from wanted
    where not exists (select from placement_shards s where (s.service, s.shard) = (wanted.service, wanted.shard))
    order by service, shard
    on conflict do nothing returning service, shard, epoch, count
  )
  select * from taken union all select * from made union all select * from odd`;

// Each shard is looked up by its key, one after the other: the plan of a join may be quadratic where a node gives
// thousands away.
const RELEASE = `
  with given as materialized (
    select * from unnest($2::text[], $3::int[], $4::bigint[]) as g (service, shard, epoch) order by service, shard
  ), matching as materialized (
    select s.* from given g cross join lateral (
      select service, shard, epoch from placement_shards s
      where (s.service, s.shard) = (g.service, g.shard) and s.epoch = g.epoch and s.owner = $1 limit 1
    ) s
  ), held as materialized (
    select s.* from matching m cross join lateral (
      select service, shard, epoch from placement_shards s
      where (s.service, s.shard) = (m.service, m.shard) and s.epoch = m.epoch and s.owner = $1
      limit 1 for no key update of s skip locked
    ) s
  ), freed as (
    update placement_shards s set owner = null, epoch = s.epoch + 1, changed = pg_current_xact_id()
    from held where (s.service, s.shard) = (held.service, held.shard)
    returning s.service, s.shard, held.epoch
  )
  select service, shard, epoch, false as freed from matching union all
  select service, shard, epoch, true from freed`;

const LEAVE = `
  with gone as (
    delete from placement_nodes where id = $1
  ), held as materialized (
    select service, shard from placement_shards where owner = $1
    order by service, shard limit $2 for no key update skip locked
  )
  update placement_shards s set owner = null, epoch = s.epoch + 1, changed = pg_current_xact_id()
  from held where (s.service, s.shard) = (held.service, held.shard)`;

/** Shards that a node which leaves lets go of in one statement, so that none takes long. */
const LEFT_AT_ONCE = 4096;

/** The lease store of a cluster on one database. `keyIds`: names of this node's secrets; it seals with the first. */
export function leaseStore(db: DirectQueries, keyIds: readonly string[] = []): LeaseStore {
  return {
    async beat(node: NodeInfo, ttlMs: number, known: Known): Promise<BeatResult> {
      const { id, roles, version, address, draining, weight } = node;
      const mark = known.mark === '' ? '0' : known.mark;
      const values = [id, [...roles], version, address, draining, ttlMs, known.stamp, mark, [...keyIds], weight];
      const row = await db.one(viewRow, BEAT, values);
      if (row === undefined) throw new TypeError('a beat returns one row');
      return { ...row, nodes: row.nodes ?? undefined };
    },

    async take(nodeId: string, shards: readonly Shard[], count: number): Promise<ShardLease[]> {
      if (shards.length === 0) return [];
      const rows = await db.many(takenRow, TAKE, [nodeId, ...fieldsOf(shards, 'service', 'shard'), count]);
      const odd = rows.find((row) => row.count !== count);
      if (odd !== undefined) {
        throw new PlacementError(
          'mismatch',
          `The entities of ${odd.service} are cut into ${odd.count} shards, not ${count}: all nodes must agree.`,
        );
      }
      return rows.map(({ service, shard, epoch }) => ({ service, shard, epoch }));
    },

    async release(nodeId: string, leases: readonly ShardLease[]): Promise<ShardLease[]> {
      if (leases.length === 0) return [];
      const values = [nodeId, ...fieldsOf(leases, 'service', 'shard', 'epoch')];
      const rows = await db.many(releasedRow, RELEASE, values);
      const freed = new Set(rows.filter((row) => row.freed).map(({ service, shard }) => `${service}/${shard}`));
      const left = rows.filter((row) => !freed.has(`${row.service}/${row.shard}`));
      return left.map(({ service, shard, epoch }) => ({ service, shard, epoch }));
    },

    async leave(nodeId: string): Promise<void> {
      while ((await db.run(LEAVE, [nodeId, LEFT_AT_ONCE])) === LEFT_AT_ONCE);
    },
  };
}
