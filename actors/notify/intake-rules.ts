/**
 * Which messages of the stream are notifications, under which name each is stored once, and what becomes of one that
 * could not be stored.
 */
import { createHash } from 'node:crypto';
import { errorText } from '../../lib/errors.ts';
import { ID_PATTERN } from '../../proto/ids.ts';
import { MAX_SCOPE_LENGTH } from '../../proto/notify/endpoints.ts';
import { MAX_CATEGORY_LENGTH } from '../../proto/notify/fields.ts';
import { decodeNotification, type Notification } from '../../proto/notify/notification.ts';
import type { StreamMessage } from '../../proto/ports/bus.ts';
import { NOTIFICATIONS_CONSUMER } from '../../proto/subjects.ts';
import { StorageError } from '../../storage/db.ts';
import type { NewNotification } from '../../storage/notify/arrivals.ts';

/**
 * Longest texts taken, in characters: what is longer is no notification. A page of the longest still fits into memory.
 */
export const LONGEST = {
  title: 256,
  message: 8192,
  link: 2048,
  category: MAX_CATEGORY_LENGTH,
  scope: MAX_SCOPE_LENGTH,
} as const;
const LONGEST_EVENT_ID = 128;

/** A message as read: a notification, or why it is none. */
type IncomingNotification = { readonly notification: NewNotification } | { readonly refused: string };

/** Reads a message. Never throws: no redelivery would make it better. */
export function readIncoming(
  message: Pick<StreamMessage, 'subject' | 'data' | 'seq' | 'storedAt'>,
): IncomingNotification {
  let notification: Notification;
  try {
    notification = decodeNotification(message.data);
  } catch (error) {
    return { refused: `not a notification: ${errorText(error)}` };
  }
  const problem = problemOf(notification, message.subject);
  if (problem !== undefined) return { refused: problem };
  const { userId, title, message: text, link, category, scope, metadata } = notification;
  const eventId = metadata.eventId === '' ? nameOf(message) : metadata.eventId;
  return { notification: { userId, eventId, title, message: text, link, category, scope } };
}

function problemOf(notification: Notification, subject: string): string | undefined {
  const { userId, title, message, metadata } = notification;
  if (!ID_PATTERN.test(userId)) return 'user_id is no id of a user';
  // Whoever may publish to one user must not speak to another.
  if (subject !== `notify.${userId}`) return 'user_id and the subject name different users';
  if (title === '') return 'title is empty';
  if (message === '') return 'message is empty';
  const { link, category, scope } = notification;
  const badText =
    textProblem('title', title) ??
    textProblem('message', message) ??
    textProblem('link', link) ??
    textProblem('category', category) ??
    textProblem('scope', scope);
  if (badText !== undefined) return badText;
  if (metadata.eventId.length > LONGEST_EVENT_ID || metadata.eventId.includes('\0'))
    return 'metadata.event_id is no id';
  return undefined;
}

function textProblem(field: keyof typeof LONGEST, value: string): string | undefined {
  if (value.length > LONGEST[field]) return `${field} is longer than ${LONGEST[field]} characters`;
  return value.includes('\0') ? `${field} contains NUL` : undefined;
}

/**
 * A name for an event whose publisher gave none: its place in the stream, and its bytes in case the stream begins anew.
 */
function nameOf({ seq, data, storedAt }: Pick<StreamMessage, 'seq' | 'data' | 'storedAt'>): string {
  const digest = createHash('sha256').update(data).digest('base64url').slice(0, 22);
  return `stream:${seq}:${storedAt ?? ''}:${digest}`;
}

/** Whether it is the database's state, not the message, that is in the way. */
export function isPassing(error: unknown): boolean {
  return error instanceof StorageError && ['unavailable', 'timeout', 'conflict'].includes(error.code);
}

/**
 * Pause after the n-th delivery failed with the database away: with five deliveries, an absence of five minutes is
 * outlived.
 */
const AWAY_MS = 60_000;
/** Pause after the first delivery that failed by itself; it doubles with each. */
const FIRST_MS = 500;

/** What becomes of a message after a delivery that failed: another one later, or none. */
type IntakeVerdict = { readonly retryInMs: number } | { readonly giveUp: string };

/** Decides. `deliveryCount`: 1 for the first. */
export function afterFailure(error: unknown, deliveryCount: number): IntakeVerdict {
  if (deliveryCount >= NOTIFICATIONS_CONSUMER.maxDeliver) {
    return { giveUp: `not stored after ${deliveryCount} attempts: ${errorText(error)}` };
  }
  return { retryInMs: isPassing(error) ? AWAY_MS : FIRST_MS * 2 ** (deliveryCount - 1) };
}
