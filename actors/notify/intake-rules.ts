/** What to do with a message whose notification could not be stored. */
import { errorText } from '../../lib/errors.ts';
import { NOTIFICATIONS_CONSUMER } from '../../proto/subjects.ts';
import { StorageError } from '../../storage/db.ts';

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
