import type { ClockTimer, SystemClock } from '../common/environment.ts';

/** A timer that is set. */
class VirtualTimer implements ClockTimer {
  readonly due: number;
  readonly f: () => void;
  readonly #timers: Set<VirtualTimer>;

  constructor(timers: Set<VirtualTimer>, due: number, f: () => void) {
    this.#timers = timers;
    this.due = due;
    this.f = f;
    timers.add(this);
  }

  close(): void {
    this.#timers.delete(this);
  }

  ref(): void {}

  unref(): void {}
}

/** A clock that stands still until it is told to go on. */
export class VirtualClock implements SystemClock {
  readonly #timers = new Set<VirtualTimer>();
  #now = 0;

  now(): number {
    return this.#now;
  }

  setTimeout(f: () => void, ms: number): ClockTimer {
    return new VirtualTimer(this.#timers, this.#now + Math.max(0, ms), f);
  }

  /** When the next timer is due; undefined when none is set. */
  get next(): number | undefined {
    return this.#first?.due;
  }

  /** Goes to the time of the next timer and fires it: of several, the one that was set first. */
  fire(): void {
    const timer = this.#first;
    if (timer === undefined) return;
    this.#now = Math.max(this.#now, timer.due);
    timer.close();
    timer.f();
  }

  /** Goes on to `time`. No timer may be due before. */
  goTo(time: number): void {
    this.#now = Math.max(this.#now, time);
  }

  get #first(): VirtualTimer | undefined {
    let first: VirtualTimer | undefined;
    // A set keeps the order in which its members came.
    for (const timer of this.#timers) if (first === undefined || timer.due < first.due) first = timer;
    return first;
  }
}
