/** SQL of notifications that are stored, and of who can be told something. */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import { columnsOf, fieldsOf, manyValues, oneValue } from '../rows.ts';

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

/** Which of a user's notifications. */
interface NotificationPage {
  readonly limit: number;
  readonly offset: number;
  /** Only those with a lower id. */
  readonly before?: number | undefined;
  /** Only those that were not read. */
  readonly unread?: boolean;
  readonly category?: string | undefined;
}

/** A page of a user's notifications, newest first. The order of ids is that of `created_at`. */
export function listNotifications(db: Queries, userId: string, page: NotificationPage): Promise<NotificationRow[]> {
  const { limit, offset, before, unread = false, category } = page;
  return db.many(
    notificationRow,
    `select ${COLUMNS} from notifications
     where user_id = $1 and ($4::bigint is null or id < $4) and (not $5 or not read)
       and ($6::text is null or category = $6)
     order by id desc limit $2 offset $3`,
    [userId, limit, offset, before ?? null, unread, category ?? null],
  );
}

/** How many a user has not read. */
export async function countUnread(db: Queries, userId: string): Promise<number> {
  const unread = 'select count(*) from notifications where user_id = $1 and not read';
  return (await oneValue(db, z.number(), unread, [userId])) ?? 0;
}

/** Marks one as read. False when the user has none of that id. */
export async function markRead(db: Queries, userId: string, id: number): Promise<boolean> {
  const one = [userId, id];
  const marked = await db.run('update notifications set read = true where user_id = $1 and id = $2 and not read', one);
  return marked > 0 || (await db.run('select from notifications where user_id = $1 and id = $2', one)) > 0;
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
    [...fieldsOf(wanted, 'userId', 'since'), limit],
  );
  const pages = wanted.map((): NotificationRow[] => []);
  for (const { place, ...row } of rows) pages[place - 1]?.push(row);
  return pages;
}

/** For each user, in order: the highest id of a notification of theirs, 0 without any. */
export function headsOf(db: Queries, userIds: readonly string[]): Promise<number[]> {
  return manyValues(
    db,
    z.number(),
    `select coalesce((select max(id) from notifications where user_id = wanted.user_id), 0)
     from unnest($1::text[]) with ordinality as wanted (user_id, place) order by place`,
    [userIds],
  );
}

/** Removes all notifications of a user, what they do not want to be told, and where else they are told. */
export async function deleteNotificationsOfUser(tx: Tx, userId: string): Promise<void> {
  await tx.run('delete from notification_mutes where user_id = $1', [userId]);
  await tx.run('delete from webhooks where user_id = $1', [userId]);
  await tx.run('delete from notification_mail where user_id = $1', [userId]);
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
  return oneValue(db, z.string(), 'select id from known_users where username = $1', [username]);
}

/** The ids of all users. */
export function allRecipients(db: Queries): Promise<string[]> {
  return manyValues(db, z.string(), 'select id from known_users order by id');
}
