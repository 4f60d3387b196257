/** Deadlines of many connections with one timer: each is looked at once a second. */

const EVERY_MS = 1000;

/** Something that must have gone on by a time. */
export interface Timed {
  /** Unix-like ms on the clock of `Deadlines.now`; Infinity for none. */
  deadline: number;
  /** The deadline has passed. Called once for each deadline set. */
  onDeadline(): void;
}

/** The deadlines of one server. Exact to about a second, late, never early. */
export class Deadlines {
  readonly #all = new Set<Timed>();
  #timer: NodeJS.Timeout | undefined;

  /** Monotonic ms. */
  now(): number {
    return performance.now();
  }

  add(timed: Timed): void {
    this.#all.add(timed);
    this.#timer ??= setInterval(() => this.#sweep(), EVERY_MS);
  }

  /** The last one that goes ends the timer. */
  remove(timed: Timed): void {
    this.#all.delete(timed);
    if (this.#all.size === 0) this.close();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #sweep(): void {
    const now = this.now();
    for (const timed of this.#all) {
      if (timed.deadline > now) continue;
      timed.deadline = Number.POSITIVE_INFINITY;
      timed.onDeadline();
    }
  }
}
