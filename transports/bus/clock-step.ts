/** How much too early the wall clock must be to count as set back, ms: more than it is slewed or read late. */
const NOTICEABLE = 500;

/**
 * Tells when the wall clock was set back. The client of NATS waits for a time of that clock before it tries a server
 * again: after one hour back it would stay away for an hour.
 */
export class ClockStep {
  readonly #times: number;
  #ahead = aheadOfUptime();
  #left = 0;

  /** `times`: how many questions are answered with true for each time it was. */
  constructor(times: number) {
    this.#times = times;
  }

  /** Whether it was, since the last question. */
  ask(): boolean {
    const ahead = aheadOfUptime();
    if (ahead < this.#ahead - NOTICEABLE) this.#left = this.#times;
    this.#ahead = ahead;
    if (this.#left === 0) return false;
    this.#left -= 1;
    return true;
  }
}

function aheadOfUptime(): number {
  return Date.now() - performance.now();
}
