/** Waiting for something to become true, without a fixed sleep. */
import { setTimeout as delay } from 'node:timers/promises';

/** How long to wait, and what for: `what` ends up in the failure's message. */
export interface UntilOptions {
  /** Default 90,000 ms: machines that run tests are slow and busy. */
  readonly timeoutMs?: number;
  readonly what?: string;
  /** Between two looks. Default: a tenth of the time waited so far, from 5 to 100 ms, so that waiting leaves the processor to what is waited for. */
  readonly everyMs?: number;
}

/**
 * Calls `condition` until it gives something truthy and resolves with that. Rejects with what the condition threw, or, when
 * the time is over, with an error that names `what`.
 */
export async function until<T>(condition: () => T | Promise<T>, options: UntilOptions = {}): Promise<NonNullable<T>> {
  const timeoutMs = options.timeoutMs ?? 90_000;
  const begun = performance.now();
  for (;;) {
    const value = await condition();
    if (value) return value;
    const waitedMs = performance.now() - begun;
    if (waitedMs >= timeoutMs) {
      throw new Error(`not true within ${timeoutMs} ms: ${options.what ?? condition.toString()}`);
    }
    await delay(options.everyMs ?? Math.min(Math.max(waitedMs / 10, 5), 100));
  }
}

/** Lets everything that is due happen: turns of the event loop, for what must not happen. */
export async function turns(count = 50): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves once two looks that lie `forMs` apart give the same: nothing moves any more. */
export async function standsStill(look: () => number, forMs: number): Promise<void> {
  let last: number | undefined;
  await until(
    () => {
      const before = last;
      last = look();
      return last === before;
    },
    { what: 'it stands still', everyMs: forMs },
  );
}
