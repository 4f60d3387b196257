/** Token buckets by key: who may do something how often, in memory that is bounded. */
import type { Clock } from './ports/clock.ts';

/** How often: `burst` at once, and one more each `everyMs`. */
interface Pace {
  readonly burst: number;
  readonly everyMs: number;
}

interface Bucket {
  readonly left: number;
  readonly at: number;
}

/** Keys that are remembered at once. The one that was used longest ago goes first: it has filled the most since. */
const MOST_KEYS = 10_000;

/** Buckets that all fill at one pace. */
export class Buckets {
  /** In the order of their last use. */
  readonly #buckets = new Map<string, Bucket>();
  readonly #pace: Pace;
  readonly #clock: Clock;

  constructor(pace: Pace, clock: Clock) {
    this.#pace = pace;
    this.#clock = clock;
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#buckets.size;
  }

  /** Takes one. Returns 0, or in how many ms there is one to take. */
  take(key: string): number {
    const { burst, everyMs } = this.#pace;
    const now = this.#clock.now();
    const bucket = this.#buckets.get(key) ?? { left: burst, at: now };
    // A clock that was set back fills nothing.
    const left = Math.min(burst, bucket.left + Math.max(0, now - bucket.at) / everyMs);
    this.#buckets.delete(key);
    this.#buckets.set(key, { left: left < 1 ? left : left - 1, at: now });
    if (this.#buckets.size > MOST_KEYS) {
      const [oldest] = this.#buckets.keys();
      if (oldest !== undefined) this.#buckets.delete(oldest);
    }
    return left < 1 ? Math.ceil((1 - left) * everyMs) : 0;
  }

  /** Returns 0, or in how many ms there is one to take, and takes none. */
  waitFor(key: string): number {
    const { burst, everyMs } = this.#pace;
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) return 0;
    const left = Math.min(burst, bucket.left + Math.max(0, this.#clock.now() - bucket.at) / everyMs);
    return left < 1 ? Math.ceil((1 - left) * everyMs) : 0;
  }

  /** Gives one back that was taken. */
  giveBack(key: string): void {
    const bucket = this.#buckets.get(key);
    if (bucket !== undefined) this.#buckets.set(key, { left: bucket.left + 1, at: bucket.at });
  }
}
