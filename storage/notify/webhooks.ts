/** SQL of webhooks as their users see them. Secrets are sealed, each for its own row. */
import { z } from 'zod';
import { KEPT_ANSWERS } from '../../proto/notify/webhooks.ts';
import type { Queries, Tx } from '../db.ts';
import type { SealedPlace } from '../reseal.ts';
import { columnsOf, oneValue } from '../rows.ts';

/** What the sealed secrets of a row are bound to. */
export const secretContext = (webhookId: string) => `webhooks/${webhookId}/secret`;

const webhookRow = z.object({
  id: z.string(),
  userId: z.string(),
  url: z.string(),
  categories: z.array(z.string()),
  enabled: z.boolean(),
  disabledBecause: z.enum(['', 'user', 'gone', 'dead']),
  secret: z.instanceof(Buffer),
  failingSince: z.date().nullable(),
  dead: z.number(),
  waiting: z.number(),
  createdAt: z.date(),
});

/** A webhook as stored. */
export type WebhookRow = z.output<typeof webhookRow>;

const WAITING = '(select count(*) from webhook_deliveries where webhook_id = hook.id and due_at is not null)';
const SELECT = `select ${columnsOf(webhookRow, { secret: 'secret_sealed', waiting: WAITING }, 'hook')}
  from webhooks as hook`;

/** The user's webhooks, oldest first. */
export function webhooksOf(db: Queries, userId: string): Promise<WebhookRow[]> {
  return db.many(webhookRow, `${SELECT} where user_id = $1 order by hook.created_at, hook.id`, [userId]);
}

/** One of them; undefined when it is not this user's. */
export function webhookOf(db: Queries, userId: string, id: string): Promise<WebhookRow | undefined> {
  return db.one(webhookRow, `${SELECT} where user_id = $1 and hook.id = $2`, [userId, id]);
}

/** Adds a webhook; false when the user has `most` of them. */
export async function insertWebhook(
  tx: Tx,
  webhook: Pick<WebhookRow, 'id' | 'userId' | 'url' | 'categories' | 'secret'>,
  most: number,
): Promise<boolean> {
  // Two additions of one user at once must count each other.
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('webhooks/' || $1, 0))`, [webhook.userId]);
  const added = await tx.run(
    `insert into webhooks (id, user_id, url, categories, secret_sealed)
     select $1, $2, $3, $4, $5 where (select count(*) from webhooks where user_id = $2) < $6`,
    [webhook.id, webhook.userId, webhook.url, webhook.categories, webhook.secret, most],
  );
  return added === 1;
}

/** What of a webhook may be changed. */
interface WebhookChange {
  readonly url?: string | undefined;
  readonly categories?: readonly string[] | undefined;
  readonly enabled?: boolean | undefined;
}

/** Changes one of the user's; false when there is none. What is enabled anew begins without failures. */
export async function changeWebhook(tx: Tx, userId: string, id: string, change: WebhookChange): Promise<boolean> {
  const { url, categories, enabled } = change;
  const changed = await tx.run(
    `update webhooks set url = coalesce($3, url), categories = coalesce($4::text[], categories)
     where user_id = $1 and id = $2`,
    [userId, id, url ?? null, categories ?? null],
  );
  if (changed === 0) return false;
  if (enabled === true)
    await tx.run(
      `update webhooks set enabled = true, disabled_because = '', failing_since = null, dead = 0, enabled_at = now()
       where id = $1 and not enabled`,
      [id],
    );
  if (enabled === false) await disableWebhook(tx, id, 'user');
  return true;
}

/** Disables it, and drops what waits for it. False when it was not enabled. */
export async function disableWebhook(tx: Tx, id: string, because: 'user' | 'gone' | 'dead'): Promise<boolean> {
  const disable = 'update webhooks set enabled = false, disabled_because = $2 where id = $1 and enabled';
  const done = await tx.run(disable, [id, because]);
  const drop = `update webhook_deliveries set due_at = null, body = '' where webhook_id = $1 and due_at is not null`;
  await tx.run(drop, [id]);
  return done === 1;
}

/** Gives one of the user's another secret; the present one signs beside it until `formerUntil`. False: no such one. */
export async function replaceSecret(
  tx: Tx,
  userId: string,
  id: string,
  sealed: Buffer,
  formerUntil: Date,
): Promise<boolean> {
  const changed = await tx.run(
    `update webhooks set former_sealed = secret_sealed, former_until = $4, secret_sealed = $3
     where user_id = $1 and id = $2`,
    [userId, id, sealed, formerUntil],
  );
  return changed === 1;
}

/** Removes one of the user's with all that waits for it. Returns its address, or undefined. */
export function deleteWebhook(tx: Tx, userId: string, id: string): Promise<string | undefined> {
  const deleted = 'delete from webhooks where user_id = $1 and id = $2 returning url';
  return oneValue(tx, z.string(), deleted, [userId, id]);
}

const answerRow = z.object({
  eventId: z.string(),
  attempt: z.number(),
  at: z.date(),
  status: z.number().nullable(),
  ms: z.number(),
  error: z.string(),
});

/** What a webhook answered to one try. */
export type WebhookAnswerRow = z.output<typeof answerRow>;

/** The last answers, newest first. */
export function answersOf(db: Queries, webhookId: string): Promise<WebhookAnswerRow[]> {
  return db.many(
    answerRow,
    `select ${columnsOf(answerRow)} from webhook_answers
     where webhook_id = $1 order by id desc limit ${KEPT_ANSWERS}`,
    [webhookId],
  );
}

/** Where sealed values of notifications stand: all of this room. */

/** The columns. */
export const NOTIFY_SEALED: readonly SealedPlace[] = [
  { table: 'webhooks', id: 'id', column: 'secret_sealed', context: secretContext },
  { table: 'webhooks', id: 'id', column: 'former_sealed', context: secretContext },
];
