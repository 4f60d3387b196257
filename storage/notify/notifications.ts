/** SQL of notifications that are stored, and of who can be told something. */
import { z } from 'zod';
import { columnsOf, numberRow, type Queries, type Tx, textRow } from '../queries.ts';

const notificationRow = z.object({
  id: z.number(),
  userId: z.string(),
  title: z.string(),
  message: z.string(),
  link: z.string(),
  category: z.string(),
  scope: z.string(),
  read: z.boolean(),
  createdAt: z.date(),
});
const placedRow = notificationRow.extend({ place: z.number() });

/** A notification as stored. */
export type NotificationRow = z.output<typeof notificationRow>;

const COLUMNS = columnsOf(notificationRow);

/** A page of a user's notifications, newest first. The order of ids is that of `created_at`. */
export function listNotifications(
  db: Queries,
  userId: string,
  page: { readonly limit: number; readonly offset: number },
): Promise<NotificationRow[]> {
  return db.many(
    notificationRow,
    `select ${COLUMNS} from notifications where user_id = $1 order by id desc limit $2 offset $3`,
    [userId, page.limit, page.offset],
  );
}

/** How many a user has not read. */
export async function countUnread(db: Queries, userId: string): Promise<number> {
  return (await db.one(numberRow, 'select count(*) from notifications where user_id = $1 and not read', [userId])) ?? 0;
}

/** Marks one as read. False when the user has none of that id. */
export async function markRead(db: Queries, userId: string, id: number): Promise<boolean> {
  const statement = 'update notifications set read = true where user_id = $1 and id = $2 and not read';
  if ((await db.run(statement, [userId, id])) > 0) return true;
  return (await db.run('select from notifications where user_id = $1 and id = $2', [userId, id])) === 1;
}

/** Marks all of a user's as read. Returns how many were not. */
export function markAllRead(db: Queries, userId: string): Promise<number> {
  return db.run('update notifications set read = true where user_id = $1 and not read', [userId]);
}

/** Whose notifications above which id. */
export interface After {
  readonly userId: string;
  readonly since: number;
}

/** For each of `wanted`, in its order: the first `limit` notifications with a higher id, in their order. */
export async function notificationsAfter(
  db: Queries,
  wanted: readonly After[],
  limit: number,
): Promise<NotificationRow[][]> {
  const rows = await db.many(
    placedRow,
    `select place, found.* from unnest($1::text[], $2::bigint[]) with ordinality as wanted (wanted_user, since, place)
     cross join lateral (
       select ${COLUMNS} from notifications where user_id = wanted_user and id > since order by id limit $3
     ) as found
     order by place, id`,
    [wanted.map(({ userId }) => userId), wanted.map(({ since }) => since), limit],
  );
  const pages = wanted.map((): NotificationRow[] => []);
  for (const { place, ...row } of rows) pages[place - 1]?.push(row);
  return pages;
}

/** For each user, in order: the highest id of a notification of theirs, 0 without any. */
export function headsOf(db: Queries, userIds: readonly string[]): Promise<number[]> {
  return db.many(
    numberRow,
    `select coalesce((select max(id) from notifications where user_id = wanted.user_id), 0)
     from unnest($1::text[]) with ordinality as wanted (user_id, place) order by place`,
    [userIds],
  );
}

/** Removes all notifications of a user, and what they do not want to be told. */
export async function deleteNotificationsOfUser(tx: Tx, userId: string): Promise<void> {
  await tx.run('delete from notification_mutes where user_id = $1', [userId]);
  await tx.run('delete from notifications where user_id = $1', [userId]);
}

/** Removes some of those that are older than `days`, at most `step`. Returns how many went. */
export function purgeNotifications(db: Queries, days: number, step: number): Promise<number> {
  return db.run(
    `delete from notifications where ctid in (
       select ctid from notifications where created_at < now() - make_interval(days => $1::int) limit $2)`,
    [days, step],
  );
}

/** The id of the user of that name, or undefined. */
export function recipientByName(db: Queries, username: string): Promise<string | undefined> {
  return db.one(textRow, 'select id from known_users where username = $1', [username]);
}

/** The ids of all users. */
export function allRecipients(db: Queries): Promise<string[]> {
  return db.many(textRow, 'select id from known_users order by id');
}
