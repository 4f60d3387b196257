/** SQL of mail to users: the address of each, the code that proves it, and what waits to be mailed. */
import { z } from 'zod';
import type { Db, Queries, Tx } from '../db.ts';
import { fieldsOf, manyValues, oneValue } from '../rows.ts';

/** Most notifications that wait for one user: what comes while so many wait is not mailed. */
const MOST_WAITING = 1000;

const mailRow = z.object({
  address: z.string().nullable(),
  categories: z.array(z.string()),
  verified: z.boolean(),
  waiting: z.number(),
  error: z.string(),
});

/** How mail to a user is. */
type MailRow = z.output<typeof mailRow>;

/** How it is; undefined when the user never asked for it. */
export function mailOf(db: Queries, userId: string): Promise<MailRow | undefined> {
  return db.one(
    mailRow,
    `select address, categories, verified_at is not null as verified, error,
       (select count(*) from mailed_notifications as one where one.user_id = $1 and not is_over) as waiting
     from notification_mail where user_id = $1`,
    [userId],
  );
}

/** A code that is sent to prove an address. */
interface NewCode {
  readonly hash: string;
  readonly until: Date;
  readonly tries: number;
  readonly now: Date;
  /** Codes sent since then count; of more than `most` none is sent. */
  readonly since: Date;
  readonly most: number;
}

/** Turns mail off, and drops what waits. */
export async function turnMailOff(tx: Tx, userId: string): Promise<void> {
  await tx.run(
    `update notification_mail set address = null, verified_at = null, enabled_at = null, code_hash = null,
       batch = null, attempts = 0, due_at = null, error = '' where user_id = $1`,
    [userId],
  );
  await dropWaiting(tx, userId);
}

/** Changes which categories are mailed. */
export async function setMailCategories(tx: Tx, userId: string, categories: readonly string[]): Promise<void> {
  await tx.run('update notification_mail set categories = $2 where user_id = $1', [userId, categories]);
}

/** Sets an address that is to be proven, and drops what waits. False when too many codes were sent lately. */
export async function setMailAddress(
  tx: Tx,
  userId: string,
  address: string,
  categories: readonly string[],
  code: NewCode,
): Promise<boolean> {
  await tx.run('insert into notification_mail (user_id) values ($1) on conflict do nothing', [userId]);
  const set = await tx.run(
    `update notification_mail set address = $2, categories = $3, verified_at = null, enabled_at = null,
       code_hash = $4, code_until = $5, code_tries = $6, batch = null, attempts = 0, due_at = null, error = '',
       codes_at = array(select at from unnest(codes_at) as at where at > $8) || $7::timestamptz
     where user_id = $1 and (select count(*) from unnest(codes_at) as at where at > $8) < $9`,
    [userId, address, categories, code.hash, code.until, code.tries, code.now, code.since, code.most],
  );
  if (set === 0) return false;
  await dropWaiting(tx, userId);
  return true;
}

async function dropWaiting(tx: Tx, userId: string): Promise<void> {
  await tx.run(
    `update mailed_notifications set is_over = true, title = '', message = '', link = ''
     where user_id = $1 and not is_over`,
    [userId],
  );
}

/** Proves the address by a code. `wrong`: it is another, and one try less is left; `none`: no code is good now. */
export function proveAddress(
  db: Db,
  userId: string,
  isCode: (hash: string) => boolean,
  now: Date,
): Promise<'proven' | 'wrong' | 'none'> {
  return db.tx(async (tx) => {
    const hash = await oneValue(
      tx,
      z.string(),
      `select code_hash from notification_mail
       where user_id = $1 and address is not null and code_hash is not null and code_until > $2 and code_tries > 0
       for update`,
      [userId, now],
    );
    if (hash === undefined) return 'none';
    if (!isCode(hash)) {
      await tx.run('update notification_mail set code_tries = code_tries - 1 where user_id = $1', [userId]);
      return 'wrong';
    }
    await tx.run(
      'update notification_mail set verified_at = $2, enabled_at = now(), code_hash = null where user_id = $1',
      [userId, now],
    );
    return 'proven';
  });
}

/** A notification that may be mailed. */
interface MailedNotification {
  readonly userId: string;
  readonly eventId: string;
  readonly title: string;
  readonly message: string;
  readonly link: string;
  readonly category: string;
  readonly scope: string;
  /** When the stream took it: who asked for mail later does not get it. */
  readonly storedAt: Date;
}

/** Which of the users get mail. */
export async function usersWithMail(db: Queries, userIds: readonly string[]): Promise<Set<string>> {
  const found = await manyValues(
    db,
    z.string(),
    `select user_id from notification_mail
     where user_id = any($1::text[]) and address is not null and verified_at is not null`,
    [userIds],
  );
  return new Set(found);
}

/** Whether anybody gets mail. */
export async function hasMail(db: Queries): Promise<boolean> {
  const any = 'select from notification_mail where address is not null and verified_at is not null limit 1';
  return (await db.run(any)) > 0;
}

/** Lets notifications wait for those of their users who want mail; one that did so before does not again. */
export function addMailed(db: Db, mailed: readonly MailedNotification[], now: Date): Promise<void> {
  return db.tx(async (tx) => {
    await tx.run(
      `with room as materialized (
         select user_id, categories, enabled_at from notification_mail as mail
         where user_id = any($1::text[]) and address is not null and verified_at is not null
           and (select count(*) from mailed_notifications as one where one.user_id = mail.user_id and not is_over) < $10
       )
       insert into mailed_notifications (user_id, event_id, title, message, link, category, created_at)
       select new.user_id, new.event_id, new.title, new.message, new.link, new.category, $9
       from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
         $8::timestamptz[]) with ordinality
         as new (user_id, event_id, title, message, link, category, scope, stored_at, place)
       join room using (user_id)
       where (room.categories = '{}' or new.category = any(room.categories)) and new.stored_at >= room.enabled_at
         and not exists (select from notification_mutes as mute where mute.user_id = new.user_id
           and mute.category = new.category and mute.scope in ('', new.scope))
       order by place
       on conflict (user_id, event_id) do nothing`,
      [
        ...fieldsOf(mailed, 'userId', 'eventId', 'title', 'message', 'link', 'category', 'scope', 'storedAt'),
        now,
        MOST_WAITING,
      ],
    );
    await tx.run(
      `update notification_mail as mail set due_at = $2 where user_id = any($1::text[]) and due_at is null
         and exists (select from mailed_notifications as one where one.user_id = mail.user_id and not is_over)`,
      [...fieldsOf(mailed, 'userId'), now],
    );
  });
}
