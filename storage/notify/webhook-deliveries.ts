/**
 * SQL of what webhooks are sent: what waits, who tries it, and what came of it. A try is claimed by moving the time at
 * which the delivery is due; a process that dies leaves it due again then, under the same event id.
 */
import { z } from 'zod';
import { KEPT_ANSWERS } from '../../proto/notify/webhooks.ts';
import type { Db, Queries, Tx } from '../db.ts';
import { fieldsOf, manyValues, oneValue } from '../rows.ts';
import { disableWebhook, type WebhookAnswerRow } from './webhooks.ts';

/** Most deliveries that wait for one webhook: what comes while so many wait is not sent to it. */
const MOST_WAITING = 1000;

/** An event for a user's webhooks. */
interface WebhookEvent {
  readonly userId: string;
  readonly eventId: string;
  readonly category: string;
  readonly scope: string;
  /** What is sent. */
  readonly body: string;
  /** When the stream took it: webhooks that were enabled later do not get it. */
  readonly storedAt: Date;
}

/** Which of the users have webhooks that are enabled. */
export async function usersWithWebhooks(db: Queries, userIds: readonly string[]): Promise<Set<string>> {
  const found = 'select distinct user_id from webhooks where user_id = any($1::text[]) and enabled';
  return new Set(await manyValues(db, z.string(), found, [userIds]));
}

/** Whether anybody has a webhook that is enabled. */
export async function hasWebhooks(db: Queries): Promise<boolean> {
  return (await db.run('select from webhooks where enabled limit 1')) > 0;
}

/** Lets the events wait for those webhooks of their users that want them; one that did so before does not again. */
export async function addDeliveries(db: Queries, events: readonly WebhookEvent[], now: Date): Promise<void> {
  await db.run(
    `with room as materialized (
       select hook.id, hook.user_id, hook.categories, hook.enabled_at from webhooks as hook
       where hook.user_id = any($1::text[]) and hook.enabled
         and (select count(*) from webhook_deliveries where webhook_id = hook.id and due_at is not null) < $8
     )
     insert into webhook_deliveries (webhook_id, event_id, body, created_at, due_at)
     select room.id, new.event_id, new.body, $7, $7
     from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
       with ordinality as new (user_id, event_id, category, scope, body, stored_at, place)
     join room on room.user_id = new.user_id
     where (room.categories = '{}' or new.category = any(room.categories)) and new.stored_at >= room.enabled_at
       and not exists (select from notification_mutes as mute where mute.user_id = new.user_id
         and mute.category = new.category and mute.scope in ('', new.scope))
     order by place
     on conflict (webhook_id, event_id) do nothing`,
    [...fieldsOf(events, 'userId', 'eventId', 'category', 'scope', 'body', 'storedAt'), now, MOST_WAITING],
  );
}

/** Lets one body wait for one webhook. False when it is not enabled, or too much waits for it. */
export async function addDelivery(
  db: Queries,
  webhookId: string,
  eventId: string,
  body: string,
  now: Date,
): Promise<boolean> {
  const added = await db.run(
    `insert into webhook_deliveries (webhook_id, event_id, body, created_at, due_at)
     select id, $2, $3, $4, $4 from webhooks where id = $1 and enabled
       and (select count(*) from webhook_deliveries where webhook_id = $1 and due_at is not null) < $5`,
    [webhookId, eventId, body, now, MOST_WAITING],
  );
  return added === 1;
}

const claimedRow = z.object({
  id: z.number(),
  webhookId: z.string(),
  userId: z.string(),
  url: z.string(),
  secret: z.instanceof(Buffer),
  former: z.instanceof(Buffer).nullable(),
  eventId: z.string(),
  body: z.string(),
  attempt: z.number(),
  createdAt: z.date(),
});

/** A delivery that this process tries now. */
export type ClaimedDelivery = z.output<typeof claimedRow>;

/** What is claimed. */
interface DeliveryClaimOptions {
  readonly now: Date;
  /** From then on the try counts as lost. */
  readonly until: Date;
  /** Webhooks that have enough to do. */
  readonly except: readonly string[];
  readonly most: number;
}

/** Claims what is due: one of each webhook, those first that have waited longest. */
export function claimDeliveries(
  db: Queries,
  { now, until, except, most }: DeliveryClaimOptions,
): Promise<ClaimedDelivery[]> {
  return db.many(
    claimedRow,
    `with ready as (
       select webhook_id, min(due_at) as first from webhook_deliveries
       where due_at <= $1 and webhook_id <> all($3::text[]) group by webhook_id order by first limit $4
     ), taken as materialized (
       select found.id from ready cross join lateral (
         select id from webhook_deliveries where webhook_id = ready.webhook_id and due_at <= $1
         order by due_at, id limit 1 for update skip locked
       ) as found
     )
     update webhook_deliveries as delivery set attempts = attempts + 1, due_at = $2
     from taken, webhooks as hook where delivery.id = taken.id and hook.id = delivery.webhook_id
     returning delivery.id, hook.id as "webhookId", hook.user_id as "userId", hook.url, hook.secret_sealed as secret,
       case when hook.former_until > $1 then hook.former_sealed end as former, delivery.event_id as "eventId",
       delivery.body, delivery.attempts as attempt, delivery.created_at as "createdAt"`,
    [now, until, except, most],
  );
}

/** Gives a claim back: the delivery is due at once. */
export async function releaseDelivery(db: Queries, { id, attempt }: ClaimedDelivery, now: Date): Promise<void> {
  await db.run(
    `update webhook_deliveries set attempts = attempts - 1, due_at = $3
     where id = $1 and attempts = $2 and due_at is not null`,
    [id, attempt, now],
  );
}

/** What comes of a try: it succeeded, it is tried again, it is given up, or its webhook wants nothing any more. */
export type DeliveryOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'again'; readonly dueAt: Date }
  | { readonly kind: 'dead' }
  | { readonly kind: 'gone' };

/** How the webhook fares after that. */
interface AfterTry {
  /** It was disabled now, and why. */
  readonly disabled: 'gone' | 'dead' | undefined;
}

/**
 * Writes down what came of a try. `mostDead`: after so many that were given up in a row the webhook is disabled.
 * `onDisabled` is part of the transaction. A try that lost its claim meanwhile changes nothing.
 */
export function finishDelivery(
  db: Db,
  delivery: ClaimedDelivery,
  answer: Omit<WebhookAnswerRow, 'eventId' | 'attempt'>,
  outcome: DeliveryOutcome,
  rules: { readonly mostDead: number; readonly onDisabled: (tx: Tx) => Promise<void> },
): Promise<AfterTry> {
  const { id, webhookId, eventId, attempt } = delivery;
  return db.tx(async (tx) => {
    // First, by all who finish a delivery of this webhook: disabling it touches the others.
    const before = await oneValue(tx, z.number(), 'select dead from webhooks where id = $1 for update', [webhookId]);
    const next = outcome.kind === 'again' ? outcome.dueAt : null;
    const kept = await tx.run(
      `update webhook_deliveries set due_at = $3, body = case when $3::timestamptz is null then '' else body end
       where id = $1 and attempts = $2 and due_at is not null`,
      [id, attempt, next],
    );
    if (before === undefined || kept === 0) return { disabled: undefined };
    await tx.run(
      `insert into webhook_answers (webhook_id, event_id, attempt, at, status, ms, error)
       values ($1, $2, $3, $4, $5, $6, $7)`,
      [webhookId, eventId, attempt, answer.at, answer.status, answer.ms, answer.error],
    );
    await tx.run(
      `delete from webhook_answers where webhook_id = $1 and id <= (
         select id from webhook_answers where webhook_id = $1 order by id desc offset ${KEPT_ANSWERS} limit 1)`,
      [webhookId],
    );
    const dead = outcome.kind === 'done' ? 0 : before + (outcome.kind === 'dead' ? 1 : 0);
    await tx.run(
      `update webhooks set dead = $2,
         failing_since = case when $3 then null else coalesce(failing_since, $4) end
       where id = $1`,
      [webhookId, dead, outcome.kind === 'done', answer.at],
    );
    const because = outcome.kind === 'gone' ? 'gone' : dead >= rules.mostDead ? 'dead' : undefined;
    if (because === undefined || !(await disableWebhook(tx, webhookId, because))) return { disabled: undefined };
    await rules.onDisabled(tx);
    return { disabled: because };
  });
}

/** Removes some of those that are over and older than `days`, at most `step`. Returns how many went. */
export function purgeDeliveries(db: Queries, days: number, step: number): Promise<number> {
  return db.run(
    `delete from webhook_deliveries where ctid in (
       select ctid from webhook_deliveries
       where due_at is null and created_at < now() - make_interval(days => $1::int) limit $2)`,
    [days, step],
  );
}
