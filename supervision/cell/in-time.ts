import type { SystemClock } from '../common/environment.ts';
import { ActorError } from '../common/errors.ts';
import { Timer } from './timer.ts';

/**
 * What `work` comes to; rejects with ActorError `timeout`, which says `late`, when it takes longer than `ms` on the
 * clock. What it comes to later is ignored.
 */
export function inTime<T>(clock: SystemClock, work: PromiseLike<T>, ms: number, late: () => string): Promise<T> {
  return new Promise((resolve, reject) => {
    // Whoever waits for the outcome has something else that keeps the process alive.
    const expire = (): void => reject(new ActorError('timeout', `${late()} within ${ms} ms`));
    const timer = new Timer(clock, expire, ms).unref();
    Promise.resolve(work)
      .then(resolve, reject)
      .finally(() => timer.cancel());
  });
}
