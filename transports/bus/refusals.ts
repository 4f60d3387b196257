/** Messages that were not taken, told to operators: the first at once, others once a minute with their number. */
import type { Log } from '../../proto/ports/log.ts';
import { EnvelopeError } from './envelopes.ts';

const TELL_EVERY_MS = 60_000;

export class Refusals {
  readonly #log: Log;
  readonly #told = new Map<string, { at: number; since: number }>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Somebody's message for `subject` was refused. Rethrows what is no EnvelopeError. */
  note(subject: string, error: unknown): void {
    if (!(error instanceof EnvelopeError)) throw error;
    const now = performance.now();
    const told = this.#told.get(error.code);
    if (told !== undefined && now - told.at < TELL_EVERY_MS) {
      told.since += 1;
      return;
    }
    this.#told.set(error.code, { at: now, since: 0 });
    const others = told?.since ?? 0;
    this.#log.warn({ subject, reason: error.code, others, error: error.message }, 'refused a message on the bus');
  }
}
