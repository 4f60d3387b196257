import type { Log } from '../../proto/ports/log.ts';
import type { DeadLetter } from '../common/types.ts';

/** Counts the messages of one system that nobody handled, and tells whoever asked to be told. */
export class DeadLetters {
  count = 0;
  private readonly log: Log;
  private readonly listener: ((letter: DeadLetter) => void) | undefined;

  constructor(log: Log, listener: ((letter: DeadLetter) => void) | undefined) {
    this.log = log;
    this.listener = listener;
  }

  /** Never throws. */
  add(to: string, kind: string, reason: DeadLetter['reason'], message: unknown): void {
    this.count++;
    if (this.listener === undefined) return;
    try {
      this.listener({ to, kind, reason, message });
    } catch (err) {
      this.log.error({ actor: to, err }, 'the dead letter listener threw');
    }
  }

  /** Whether building a letter is worth it. */
  get heard(): boolean {
    return this.listener !== undefined;
  }
}
