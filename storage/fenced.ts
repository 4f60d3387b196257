import { PlacementError, type ShardLease } from '../proto/ports/placement.ts';
import type { Db } from './db.ts';
import type { Tx } from './queries.ts';

/**
 * How long a transaction of an entity may do nothing before the server ends it, ms: as long as its shard cannot be
 * taken.
 */
const FENCED_IDLE_MS = 5000;

/**
 * Begins the transaction of an entity that writes: proves that the lease under which its state was read is still the
 * present one, and keeps it so until the transaction ends (nobody can take the shard before). Throws PlacementError
 * `fenced` otherwise.
 *
 * The lock is FOR SHARE: FOR KEY SHARE would let the shard's owner be changed meanwhile. A transaction that hangs with
 * its node holds the shard for `idleMs` at most. Call it first: it then waits for nothing while it holds another lock.
 */
export async function fence(tx: Tx, lease: ShardLease, idleMs: number = FENCED_IDLE_MS): Promise<void> {
  const { service, shard, epoch } = lease;
  const held = await tx.run(
    `select set_config('idle_in_transaction_session_timeout', $4, true)
     from placement_shards where service = $1 and shard = $2 and epoch = $3 and owner is not null for share`,
    [service, shard, epoch, String(Math.ceil(idleMs))],
  );
  if (held === 0) {
    throw new PlacementError('fenced', `Shard ${service}/${shard} is no longer held under epoch ${epoch}.`);
  }
}

/**
 * A transaction in which an entity writes: it commits only while `lease`, taken before the entity read its state, is
 * the present one. Rejects with PlacementError `fenced` otherwise, and nothing was written. Rules of `work` as in
 * Db.tx.
 */
export function fenced<T>(db: Db, lease: ShardLease, work: (tx: Tx) => Promise<T>): Promise<T> {
  return db.tx(async (tx) => {
    await fence(tx, lease);
    return work(tx);
  });
}
