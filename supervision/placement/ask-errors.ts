/** What an ask between nodes fails with. */
import { ActorError } from '../common/errors.ts';
import type { Answer } from './wire.ts';

/** The answer to an ask that failed so. */
export function failed(error: ActorError): Answer {
  return { type: 'error', error };
}

/** Nobody knows whether the ask had its effect. */
export function lostOnTheWay(): ActorError {
  const text = 'the owner changed before it answered: the message may have been handled';
  return new ActorError('stopped', text, { begun: true });
}

/** The entity has answered, but that cannot be sent. */
export function tooLarge(bytes: number): ActorError {
  return new ActorError('crashed', `the answer has ${bytes} bytes, too many to be sent`);
}

/** A message that could not be read had no effect. */
export function unreadable(cause?: unknown): ActorError {
  return new ActorError('stopped', 'the message cannot be read there', cause === undefined ? {} : { cause });
}

/** What `work` comes to; rejects with the reason of `signal` once that is aborted. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise<T>((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason);
    signal.addEventListener('abort', giveUp, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp));
  });
}
