/** Replies that are kept under an Idempotency-Key. */
import type { Call } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import type { Tx } from '../../storage/db.ts';
import { keepAnswer } from '../../storage/idempotency.ts';

/**
 * The reply, kept if the call came with a key. To be called in the transaction of what was made, at its end. Refuses
 * `unavailable`, so that nothing is made, when another process has taken the request over.
 */
export async function keptReply<R>(tx: Tx, { place }: Call, reply: R): Promise<R> {
  if (place !== undefined && !(await keepAnswer(tx, place, { value: reply })))
    throw new Refusal('unavailable', { message: 'This request took too long, and was begun again: ask again soon.' });
  return reply;
}
