/** What webhooks are sent, how it is signed, and what follows from an answer. */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { HALF_JITTER } from '../../../lib/waiting.ts';
import { SECRET_PREFIX, WEBHOOK_HEADERS, type WebhookBody } from '../../../proto/notify/webhook-body.ts';
import type { WebhookStatus } from '../../../proto/notify/webhooks.ts';
import type { NewNotification } from '../../../storage/notify/arrivals.ts';
import type { DeliveryOutcome } from '../../../storage/notify/webhook-deliveries.ts';
import type { WebhookRow } from '../../../storage/notify/webhooks.ts';

/** Bytes of a secret's key: Standard Webhooks asks for 24 to 64. */
const KEY_BYTES = 32;

/** A new secret. */
export function newSecret(): string {
  return SECRET_PREFIX + randomBytes(KEY_BYTES).toString('base64');
}

/**
 * The id that a receiver gets for an event. What publishers name events by may hold anything: what could not stand in
 * a header, or holds the dot that separates what is signed, is replaced by its hash.
 */
export function webhookId(eventId: string): string {
  if (/^[A-Za-z0-9_-]{1,128}$/.test(eventId)) return eventId;
  return `evt_${createHash('sha256').update(eventId).digest('base64url')}`;
}

/** The headers of one try. `eventId`: as `webhookId` gives it. `at`: Unix ms. `secrets`: each signs. */
export function signedHeaders(
  eventId: string,
  body: string,
  at: number,
  secrets: readonly string[],
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(at / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${eventId}.${timestamp}.${body}`).digest('base64')}`;
  });
  return {
    'content-type': 'application/json',
    'user-agent': 'Troupe-Webhooks/1',
    [WEBHOOK_HEADERS.id]: eventId,
    [WEBHOOK_HEADERS.timestamp]: timestamp,
    [WEBHOOK_HEADERS.signature]: signatures.join(' '),
  };
}

/** The body of an event. Bounded, as the texts of a notification are. */
export function bodyOf(type: WebhookBody['type'], notification: NewNotification, at: Date): string {
  const { eventId, userId, title, message, link, category, scope } = notification;
  const data = { event_id: eventId, user_id: userId, title, message, link, category, scope };
  const body: WebhookBody = { type, timestamp: at.toISOString(), data };
  return JSON.stringify(body);
}

const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000];
/** Pauses before the next try; the last one is repeated. */
const PAUSES = [5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR];
/** How long a delivery is tried. */
const TRIED_MS = 24 * HOUR;
/** Deliveries in a row that were given up, after which a webhook is disabled: with one event a day, ten days. */
export const MOST_DEAD = 10;

/**
 * When to try again after the n-th failure of something that has waited since `since`; undefined: not any more. A
 * random part of each pause is left out, so that many who failed together do not come back together.
 */
export function nextTry(attempt: number, since: number, now: number, random = Math.random): number | undefined {
  const pause = PAUSES[Math.min(attempt, PAUSES.length) - 1] ?? 0;
  const [least, most] = HALF_JITTER;
  const at = now + pause * (least + (most - least) * random());
  return at - since > TRIED_MS ? undefined : at;
}

/** What follows from an answer, or from none: undefined. */
export function outcomeOf(
  status: number | undefined,
  { attempt, createdAt }: { readonly attempt: number; readonly createdAt: Date },
  now: number,
): DeliveryOutcome {
  if (status !== undefined && status >= 200 && status < 300) return { kind: 'done' };
  if (status === 410) return { kind: 'gone' };
  const at = nextTry(attempt, createdAt.getTime(), now);
  return at === undefined ? { kind: 'dead' } : { kind: 'again', dueAt: new Date(at) };
}

/** What a user reads of an answer: empty for a success. */
export function sentenceOf(status: number): string {
  if (status >= 200 && status < 300) return '';
  if (status === 410) return 'It answered 410: the webhook was disabled.';
  if (status >= 300 && status < 400) return `It answered ${status}: redirects are not followed.`;
  return `It answered ${status}, where 200 to 299 was expected.`;
}

/** How a webhook fares. */
export function statusOf({ enabled, failingSince, dead }: WebhookRow): WebhookStatus {
  if (!enabled) return 'disabled';
  if (dead > 0) return 'failing';
  return failingSince === null ? 'ok' : 'retrying';
}
