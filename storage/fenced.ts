import type { ShardLease } from '../proto/ports/placement.ts';
import type { Db } from './db.ts';
import { fence } from './placement/fence.ts';
import type { Tx } from './queries.ts';

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
