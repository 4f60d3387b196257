/** Waiting: with a limit, until news, before another try, and until the first of several signals. */
import { setTimeout as delay } from 'node:timers/promises';

/**
 * The result of `work`, or of `late` when there is none after `ms`: `late` gives another result, or throws. Rejects as
 * `work` does. What `work` comes to later is ignored; the timer ends with the first of both.
 */
export async function withTimeout<T, L>(work: Promise<T>, ms: number, late: () => L): Promise<T | L> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  }).then(late);
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for `work`, but no longer than `ms`. Rejects as `work` does. */
export async function waitAtMost(work: Promise<unknown>, ms: number): Promise<void> {
  await withTimeout(work, ms, () => undefined);
}

/** A pause that ends early when there is news. One waits at a time. */
export class InterruptiblePause {
  #isWoken = false;
  #wake: (() => void) | undefined;

  /** Ends the pause under way, and the next at once unless `reset` comes before. */
  wake(): void {
    this.#isWoken = true;
    this.#wake?.();
  }

  /** What came so far is news no more. */
  reset(): void {
    this.#isWoken = false;
  }

  /** Resolves after `ms`, or once it is woken. */
  async wait(ms: number): Promise<void> {
    if (this.#isWoken) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}

/** A moment that may be waited for: when all have left, say. */
export class Moment {
  #tell: (() => void) | undefined;

  /** It is here. Nobody who waits later hears of it. */
  reached(): void {
    this.#tell?.();
  }

  /** Resolves once it is reached, or after `ms`. One waits at a time. */
  within(ms: number): Promise<void> {
    const reached = new Promise<void>((resolve) => {
      this.#tell = resolve;
    });
    return waitAtMost(reached, ms);
  }
}

/** Bounds of a pause that doubles with each failure. */
interface BackoffBounds {
  readonly minMs: number;
  readonly maxMs: number;
}

/** Which shares of a pause are drawn from, so that many who failed together do not come back together. */
export type Jitter = readonly [least: number, most: number];

/** The whole pause, always. */
export const NO_JITTER: Jitter = [1, 1];
/** The second half of the pause is random. */
export const HALF_JITTER: Jitter = [0.5, 1];
/** Half of the pause up to one and a half. */
export const WIDE_JITTER: Jitter = [0.5, 1.5];
/** All of the pause is random. */
export const FULL_JITTER: Jitter = [0, 1];

/** Past this no bound is left to reach, and a power of two stays a number. */
const MOST_DOUBLINGS = 30;

/** The pause before another try, ms: `minMs` doubled so many times, at most `maxMs`, and of that a random share. */
export function backoffMs(
  doublings: number,
  { minMs, maxMs }: BackoffBounds,
  [least, most]: Jitter = NO_JITTER,
  random: () => number = Math.random,
): number {
  const pause = Math.min(maxMs, minMs * 2 ** Math.min(doublings, MOST_DOUBLINGS));
  return least === most ? pause * least : pause * (least + (most - least) * random());
}

/** What `call` gives, called again after `pauseMs` while it rejects with what passes: `tries` times in all at most. */
export async function retried<T>(
  call: () => Promise<T>,
  { tries, pauseMs }: { readonly tries: number; readonly pauseMs: number },
  isPassing: (error: unknown) => boolean,
): Promise<T> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await call();
    } catch (error) {
      if (tried === tries || !isPassing(error)) throw error;
    }
    await delay(pauseMs);
  }
}

/** A signal of several, until it is let go of. */
interface AnySignal {
  readonly signal: AbortSignal;
  /** It hears the others no more. Again does nothing. */
  release(): void;
}

/**
 * Aborts with the first of `signals`. `AbortSignal.any` would do, but of each that it made a signal that lives on keeps
 * a trace for ever, and calls are many.
 */
export function anySignal(signals: readonly AbortSignal[]): AnySignal {
  const controller = new AbortController();
  const listeners = signals.map((signal) => {
    const listener = (): void => controller.abort(signal.reason);
    if (signal.aborted) listener();
    else signal.addEventListener('abort', listener, { once: true });
    return () => signal.removeEventListener('abort', listener);
  });
  return {
    signal: controller.signal,
    release: () => {
      for (const remove of listeners) remove();
    },
  };
}

/** Whether `value` comes later. To await a value that is there costs a turn. */
export function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
