/** SQL of news that are kept in rows, which a process reads that missed their messages. */
import { z } from 'zod';
import type { Queries } from '../queries.ts';
import { oneValue } from '../rows.ts';

const itemSchema = z.tuple([z.string(), z.string(), z.string()]);
const lookRow = z.object({ snapshot: z.string(), items: z.array(itemSchema) });

/** How long rows are kept. Whoever looks later than that has missed some. */
export const KEPT_MS = 600_000;
/** Of more news than these nothing is read: whoever missed so many looks for itself. */
export const MAX_ITEMS = 10_000;
/** Rows removed in one step. */
const STEP = 5000;

/** The database as it is now, from which `newsSince` goes on. */
export async function newsSnapshot(db: Queries): Promise<string> {
  return (await oneValue(db, z.string(), 'select pg_current_snapshot()::text')) ?? '';
}

/**
 * The news of `channels` whose transactions ended since `snapshot`, as [channel, payload, id], at most one more than
 * MAX_ITEMS; and where the next look goes on.
 */
export async function newsSince(
  db: Queries,
  snapshot: string,
  channels: readonly string[],
): Promise<z.output<typeof lookRow> | undefined> {
  // One statement, so that the snapshot is the very one that the rows are seen by. A row beyond it is of another
  // server, whose data this one was made from.
  return db.one(
    lookRow,
    `select pg_current_snapshot()::text as snapshot, coalesce((
       select jsonb_agg(jsonb_build_array(channel, payload, id) order by changed) from (
         select channel, payload, id, changed from news
         where changed >= pg_snapshot_xmin($1::text::pg_snapshot)
           and not pg_visible_in_snapshot(changed, $1::text::pg_snapshot)
           and pg_visible_in_snapshot(changed, pg_current_snapshot())
           and channel = any($2::text[])
         order by changed limit $3
       ) as missed), '[]') as items`,
    [snapshot, channels, MAX_ITEMS + 1],
  );
}

/** Removes the oldest rows, which nobody reads any more, one step of each channel. */
export async function dropOldNews(db: Queries): Promise<void> {
  await db.run(
    `delete from news where ctid = any(array(
       with recursive channels as (
         select min(channel) as channel from news
         union all
         select (select min(channel) from news where channel > before.channel) from channels as before
         where before.channel is not null
       )
       select ctid from channels cross join lateral
         (select ctid, at from news where news.channel = channels.channel order by changed limit $1) as oldest
       where at < now() - $2 * interval '1 millisecond'))`,
    [STEP, KEPT_MS],
  );
}

/** What the names of connections end with whose processes read rows of news. */
export const READS_NEWS = ' reads news';

/** Whether a process is connected that hears nothing but NOTIFY: of a version before rows of news. */
export async function hasOlderListeners(db: Queries): Promise<boolean> {
  const found = await db.run(
    `select from pg_stat_activity where datname = current_database()
       and application_name like 'troupe/%' and not application_name like '%' || $1 limit 1`,
    [READS_NEWS],
  );
  return found > 0;
}
