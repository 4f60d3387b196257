/**
 * SQL of mails as they are tried, one of a user at a time. Which notifications a mail holds is written down before its
 * first try, so that each try sends the same. A try is claimed by moving the time at which its user is due; a process
 * that dies leaves the same mail due again then.
 */
import { z } from 'zod';
import type { Db, Queries, Tx } from '../db.ts';
import { columnsOf, oneValue } from '../rows.ts';

/** Most notifications in one mail. */
const MOST_IN_MAIL = 200;

const claimedRow = z.object({
  userId: z.string(),
  address: z.string(),
  batch: z.string().nullable(),
  batchAt: z.date().nullable(),
  attempt: z.number(),
  sentAt: z.array(z.date()),
});

const itemRow = z.object({
  eventId: z.string(),
  title: z.string(),
  message: z.string(),
  link: z.string(),
  category: z.string(),
  createdAt: z.date(),
});

/** A notification of a mail. */
export type MailItem = z.output<typeof itemRow>;

/** A mail that this process tries now. */
export interface ClaimedMail {
  readonly userId: string;
  readonly address: string;
  /** Names it: the id of its first event. */
  readonly batch: string;
  readonly attempt: number;
  /** When it was tried first. */
  readonly since: Date;
  readonly items: readonly MailItem[];
}

/** What the next mail of a user is: so many of those that wait, in their order, or nothing before a time. */
export type MailPlan = { readonly take: number } | { readonly notBefore: Date };

/** What is claimed. */
interface MailClaimOptions {
  readonly now: Date;
  /** From then on the try counts as lost. */
  readonly until: Date;
  readonly most: number;
  /** Decides what the next mail is, by when the last ones were sent, how many notifications wait, and since when. */
  readonly plan: (sentAt: readonly Date[], waiting: number, oldest: Date) => MailPlan;
}

/** Claims mails that are due, at most one of each user. */
export function claimMails(db: Db, options: MailClaimOptions): Promise<ClaimedMail[]> {
  const { now, until, most } = options;
  return db.tx(async (tx) => {
    const claimed = await tx.many(
      claimedRow,
      `with taken as materialized (
         select user_id from notification_mail
         where due_at <= $1 and address is not null and verified_at is not null
         order by due_at limit $3 for update skip locked
       )
       update notification_mail as mail set attempts = attempts + 1, due_at = $2
       from taken where mail.user_id = taken.user_id
       returning ${columnsOf(claimedRow, { attempt: 'attempts' }, 'mail')}`,
      [now, until, most],
    );
    const mails: ClaimedMail[] = [];
    for (const row of claimed) {
      const batch = row.batch ?? (await formMail(tx, row, options));
      if (batch === undefined) continue;
      const items = await itemsOf(tx, row.userId, batch);
      const { userId, address, attempt, batchAt } = row;
      mails.push({ userId, address, batch, attempt, since: batchAt ?? now, items });
    }
    return mails;
  });
}

/** Puts together the next mail of a user. Returns its name, or undefined when there is none for now. */
async function formMail(
  tx: Tx,
  { userId, sentAt }: z.output<typeof claimedRow>,
  { now, plan }: MailClaimOptions,
): Promise<string | undefined> {
  const waiting = await tx.one(
    z.object({ count: z.number(), oldest: z.date().nullable() }),
    `select count(*) as count, min(created_at) as oldest from mailed_notifications
     where user_id = $1 and not is_over`,
    [userId],
  );
  const next = waiting?.oldest == null ? undefined : plan(sentAt, waiting.count, waiting.oldest);
  if (next === undefined || 'notBefore' in next) {
    const later = [userId, next?.notBefore ?? null];
    await tx.run('update notification_mail set attempts = 0, due_at = $2 where user_id = $1', later);
    return undefined;
  }
  const first = await oneValue(
    tx,
    z.string(),
    'select event_id from mailed_notifications where user_id = $1 and not is_over order by id limit 1',
    [userId],
  );
  if (first === undefined) return undefined;
  await tx.run(
    `update mailed_notifications set batch = $2 where id in (
       select id from mailed_notifications where user_id = $1 and not is_over order by id limit $3)`,
    [userId, first, Math.min(next.take, MOST_IN_MAIL)],
  );
  await tx.run('update notification_mail set batch = $2, batch_at = $3 where user_id = $1', [userId, first, now]);
  return first;
}

function itemsOf(tx: Queries, userId: string, batch: string): Promise<MailItem[]> {
  return tx.many(
    itemRow,
    `select ${columnsOf(itemRow)} from mailed_notifications
     where user_id = $1 and batch = $2 and not is_over order by id`,
    [userId, batch],
  );
}

/** What comes of a try. */
export type MailOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'again'; readonly dueAt: Date; readonly error: string }
  | { readonly kind: 'dead'; readonly error: string };

/**
 * Writes down what came of a try. One that lost its claim meanwhile changes nothing. `hour`: what was sent before is
 * forgotten.
 */
export function finishMail(
  db: Db,
  { userId, batch, attempt }: ClaimedMail,
  outcome: MailOutcome,
  now: Date,
  hour: Date,
): Promise<void> {
  return db.tx(async (tx) => {
    const isAgain = outcome.kind === 'again';
    const error = outcome.kind === 'done' ? '' : outcome.error;
    const kept = await tx.run(
      `update notification_mail set error = $4, due_at = $5,
         batch = case when $6 then batch end, batch_at = case when $6 then batch_at end,
         attempts = case when $6 then attempts else 0 end,
         sent_at = case when $7 then array(select at from unnest(sent_at) as at where at > $8) || $9::timestamptz
           else sent_at end
       where user_id = $1 and batch = $2 and attempts = $3`,
      [userId, batch, attempt, error, isAgain ? outcome.dueAt : now, isAgain, outcome.kind === 'done', hour, now],
    );
    if (kept === 0 || isAgain) return;
    await tx.run(
      `update mailed_notifications set is_over = true, title = '', message = '', link = ''
       where user_id = $1 and batch = $2 and not is_over`,
      [userId, batch],
    );
  });
}

/** Removes some of those that are over and older than `days`, at most `step`. Returns how many went. */
export function purgeMailed(db: Queries, days: number, step: number): Promise<number> {
  return db.run(
    `delete from mailed_notifications where ctid in (
       select ctid from mailed_notifications
       where is_over and created_at < now() - make_interval(days => $1::int) limit $2)`,
    [days, step],
  );
}
