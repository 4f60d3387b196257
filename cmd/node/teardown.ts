/** Ends what was started, in reverse order. */
import { withTimeout } from '../../lib/waiting.ts';
import type { Log } from '../../proto/ports/log.ts';

/** Longest any part may take to end, ms; then the next one is ended all the same. */
const PART_DEADLINE_MS = 15_000;

/** A list of parts to end. A part that fails or hangs does not keep the others from ending. */
export class Teardown {
  readonly #log: Log;
  readonly #parts: { name: string; end: () => Promise<unknown> }[] = [];
  #running: Promise<void> | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Adds a part that was just started. */
  add(name: string, end: () => Promise<unknown>): void {
    this.#parts.push({ name, end });
  }

  /** Ends all parts, the last first. Never rejects; calling it again waits for the same end. */
  run(): Promise<void> {
    this.#running ??= this.#end();
    return this.#running;
  }

  async #end(): Promise<void> {
    for (const { name, end } of this.#parts.reverse()) {
      try {
        if ((await withTimeout(end(), PART_DEADLINE_MS, () => 'late')) === 'late')
          this.#log.error({ part: name }, 'a part did not end in time');
      } catch (error) {
        this.#log.error({ part: name, err: error }, 'a part failed to end');
      }
    }
  }
}
