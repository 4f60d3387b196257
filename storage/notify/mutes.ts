/** SQL of mutes: what users do not want to be told. */
import { z } from 'zod';
import type { Db, Queries } from '../db.ts';
import { columnsOf } from '../rows.ts';

const mutesRow = z.object({ count: z.number(), present: z.boolean() });

const muteRow = z.object({
  id: z.number(),
  userId: z.string(),
  category: z.string(),
  scope: z.string(),
  createdAt: z.date(),
});

/** A mute as stored. */
export type MuteRow = z.output<typeof muteRow>;

/** A user's mutes, oldest first. */
export function listMutes(db: Queries, userId: string): Promise<MuteRow[]> {
  return db.many(muteRow, `select ${columnsOf(muteRow)} from notification_mutes where user_id = $1 order by id`, [
    userId,
  ]);
}

/** Adds a mute; one that is there already stays. False when the user has `most` others. */
export function addMute(
  db: Db,
  userId: string,
  { category, scope }: { readonly category: string; readonly scope: string },
  most: number,
): Promise<boolean> {
  return db.tx(async (tx) => {
    // Two at once must not both find the last free place.
    await tx.run(`select pg_advisory_xact_lock(hashtextextended('notification_mutes/' || $1, 0))`, [userId]);
    const row = await tx.one(
      mutesRow,
      `select count(*) as count, coalesce(bool_or(category = $2 and scope = $3), false) as present
       from notification_mutes where user_id = $1`,
      [userId, category, scope],
    );
    if (row?.present === true) return true;
    if (row === undefined || row.count >= most) return false;
    const mute = [userId, category, scope];
    await tx.run('insert into notification_mutes (user_id, category, scope) values ($1, $2, $3)', mute);
    return true;
  });
}

/** Removes a mute, if it is there. */
export async function removeMute(
  db: Queries,
  userId: string,
  { category, scope }: { readonly category: string; readonly scope: string },
): Promise<void> {
  const mute = [userId, category, scope];
  await db.run('delete from notification_mutes where user_id = $1 and category = $2 and scope = $3', mute);
}
