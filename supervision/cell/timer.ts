import type { ClockTimer, SystemClock } from '../environment.ts';
import { ActorError } from '../errors.ts';

/** The longest that Node's own timers take: a longer one fires at once. */
export const MAX_TIMER_MS = 2_147_483_647;

/** Calls `f` once, or again and again (`repeats`), after `ms`, however long that is. Ended with `cancel`. */
export class Timer {
  private handle: ClockTimer;
  private readonly clock: SystemClock;
  private left: number;
  private isIdle = false;
  private readonly ms: number;
  private readonly f: () => void;
  private readonly repeats: boolean;

  constructor(clock: SystemClock, f: () => void, ms: number, repeats = false) {
    this.clock = clock;
    this.f = f;
    this.ms = ms;
    this.left = ms;
    this.repeats = repeats;
    this.handle = this.step();
  }

  cancel(): void {
    this.handle.close();
  }

  /** Keeps the process alive no longer. */
  unref(): this {
    this.isIdle = true;
    this.handle.unref();
    return this;
  }

  private step(): ClockTimer {
    const ms = Math.min(this.left, MAX_TIMER_MS);
    this.left -= ms;
    const handle = this.clock.setTimeout(() => this.fire(), ms);
    if (this.isIdle) handle.unref();
    return handle;
  }

  private fire(): void {
    if (this.left > 0) this.handle = this.step();
    else {
      if (this.repeats) {
        this.left = this.ms;
        this.handle = this.step();
      }
      this.f();
    }
  }
}

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
