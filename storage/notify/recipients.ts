/** SQL of who can be told something. */
import { z } from 'zod';
import type { Queries } from '../db.ts';

const row = z.object({ id: z.string() });

/** The id of the user of that name, or undefined. */
export async function recipientByName(db: Queries, username: string): Promise<string | undefined> {
  return (await db.one(row, 'select id from known_users where username = $1', [username]))?.id;
}

/** The ids of all users. */
export async function allRecipients(db: Queries): Promise<string[]> {
  return (await db.many(row, 'select id from known_users order by id')).map(({ id }) => id);
}
