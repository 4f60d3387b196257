/** SQL of containers that are gone: their ids are remembered for a while. */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { manyValues } from '../rows.ts';

/** Forgets a container whose deletion is complete, but for its id. */
export async function forgetContainer(db: Queries, id: string): Promise<void> {
  await db.run(
    `with gone as (delete from containers where id = $1 and desired = 'deleted' returning id, user_id)
     insert into deleted_containers (id, user_id) select id, user_id from gone on conflict (id) do nothing`,
    [id],
  );
}

/** Which of `ids` were deleted for certain. */
export function deletedAmong(db: Queries, ids: readonly string[]): Promise<string[]> {
  return manyValues(db, z.string(), 'select id from deleted_containers where id = any($1)', [ids]);
}

/** Drops ids that were deleted more than `days` ago. Returns how many. */
export function purgeDeleted(db: Queries, days: number): Promise<number> {
  return db.run('delete from deleted_containers where deleted_at < now() - make_interval(days => $1::int)', [days]);
}
