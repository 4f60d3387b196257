/** Deadlines of many connections with one timer: each is looked at once a second. */

const EVERY_MS = 1000;
/** Most that are told in one turn of the event loop: each of them may answer and close, and others wait meanwhile. */
const A_TURN = 8;

/** Something that must have gone on by a time. */
export interface Timed {
  /** Unix-like ms on the clock of `Deadlines.now`; Infinity for none. */
  deadline: number;
  /** The deadline has passed. Called once for each deadline set. */
  onDeadline(): void;
}

/**
 * The deadlines of one server. Exact to about a second, late, never early. Of many that have passed at once, few are
 * told in a turn of the event loop.
 */
export class Deadlines {
  readonly #all = new Set<Timed>();
  #timer: NodeJS.Timeout | undefined;
  #telling: NodeJS.Immediate | undefined;

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
    clearImmediate(this.#telling);
    this.#timer = undefined;
    this.#telling = undefined;
  }

  #sweep(): void {
    // Those of the time before have their turns first.
    if (this.#telling !== undefined) return;
    const now = this.now();
    const due: Timed[] = [];
    for (const timed of this.#all) if (timed.deadline <= now) due.push(timed);
    this.#tell(due, 0);
  }

  #tell(due: readonly Timed[], from: number): void {
    this.#telling = undefined;
    const now = this.now();
    const to = Math.min(due.length, from + A_TURN);
    // Before any is told: one of them may be the last and end this.
    if (to < due.length) this.#telling = setImmediate(() => this.#tell(due, to));
    for (const timed of due.slice(from, to)) {
      // It may have gone on, or gone, since it was found.
      if (timed.deadline > now || !this.#all.has(timed)) continue;
      timed.deadline = Number.POSITIVE_INFINITY;
      timed.onDeadline();
    }
  }
}
