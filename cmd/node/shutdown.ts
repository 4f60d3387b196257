/** How a process ends: the signal that tells it to, and what it then ends in reverse order. */
import { withTimeout } from '../../lib/waiting.ts';
import type { Log } from '../../proto/ports/log.ts';

/** Longest any part may take to end, ms; then the next one is ended all the same. */
const PART_DEADLINE_MS = 15_000;

/**
 * A signal so soon after another is the same: at Ctrl-C the terminal tells the whole group of processes, and npm 11
 * tells its child what it was told itself.
 */
const SAME_SIGNAL_MS = 500;

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

/**
 * Resolves `signalled` at the first SIGTERM or SIGINT, and `promise` `delayMs` later, or at the next of them: until
 * then balancers may find out. A second SIGINT after that ends the process at once. `forget` stops listening.
 */
export function stopSignal(delayMs = 0): {
  readonly signalled: Promise<void>;
  readonly promise: Promise<void>;
  received(): boolean;
  forget(): void;
} {
  let signal: () => void = () => {};
  let resolve: () => void = () => {};
  let [received, over] = [false, false];
  let last = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  const signalled = new Promise<void>((done) => {
    signal = done;
  });
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  const end = () => {
    over = true;
    clearTimeout(timer);
    resolve();
  };
  const onSignal = (name: NodeJS.Signals) => {
    if (performance.now() - last < SAME_SIGNAL_MS) return;
    last = performance.now();
    if (over && name === 'SIGINT') process.exit(130);
    if (received || delayMs === 0) end();
    else timer = setTimeout(end, delayMs);
    received = true;
    signal();
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  return {
    signalled,
    promise,
    received: () => received,
    forget: () => {
      clearTimeout(timer);
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    },
  };
}
