/** Token buckets that several clients share fairly: none can empty one for the others. Their memory is bounded. */
import type { Clock } from './ports/clock.ts';

/** How often: `burst` at once for a client that is alone at its bucket, which refills by `perSecond`. */
export interface ChangePace {
  readonly burst: number;
  readonly perSecond: number;
}

/** What a client got. */
interface TakenShare {
  /** 0, or in how many ms there is one to take. */
  readonly waitMs: number;
  /** Gives back what is not refilled yet of the one that was taken. Again does nothing. */
  giveBack(): void;
}

/** Buckets that are remembered, and clients of each. Those that were used longest ago go first. */
const MOST_BUCKETS = 10_000;
const MOST_CLIENTS = 256;

/** What refilled a whole bucket: nothing of what was taken before is left. */
const ALL = 1000;
/** For sums of fractions. */
const TOLERANCE = 1e-6;

/** Buckets that all refill at one pace. */
export class FairBuckets {
  /** In the order of their last use. */
  readonly #buckets = new Map<string, FairBucket>();
  readonly #pace: ChangePace;
  readonly #clock: Clock;

  constructor(pace: ChangePace, clock: Clock) {
    this.#pace = pace;
    this.#clock = clock;
  }

  /** How many buckets are remembered. */
  get size(): number {
    return this.#buckets.size;
  }

  /** Takes one from a bucket for a client of it. */
  take(name: string, client: string): TakenShare {
    const bucket = this.#buckets.get(name) ?? new FairBucket(this.#pace, this.#clock);
    moveToEnd(this.#buckets, name, bucket, MOST_BUCKETS);
    return bucket.take(client);
  }
}

/** What a client has taken that is not refilled yet, as it was when `#refilled` was `at`. */
interface Debt {
  readonly amount: number;
  readonly at: number;
}

/**
 * A bucket of twice the burst. A client may take as long as it has taken at most what is left (dynamic thresholds,
 * Choudhury and Hahne, 1998): one alone gets half, n without measure get an (n+1)th each, and who comes next finds
 * another. All debts shrink at the same rate, so those who always want more get equal parts of the refill.
 */
class FairBucket {
  readonly #pace: ChangePace;
  readonly #clock: Clock;
  /** In the order of their last use. */
  readonly #debts = new Map<string, Debt>();
  /** Sum of the debts, those of forgotten clients included. */
  #taken = 0;
  /** By how much debts have shrunk: by `e` for each 1. */
  #refilled = 0;
  #refilledAt: number;

  constructor(pace: ChangePace, clock: Clock) {
    this.#pace = pace;
    this.#clock = clock;
    this.#refilledAt = clock.now();
  }

  take(client: string): TakenShare {
    this.#refill();
    const { burst, perSecond } = this.#pace;
    const debt = this.#debtOf(client);
    const tooMuch = debt + 1 + this.#taken + 1 - 2 * burst;
    if (tooMuch > TOLERANCE) {
      // Both shrink: the debt by its part of the refill.
      const seconds = tooMuch / (1 + debt / this.#taken) / perSecond;
      return { waitMs: Math.ceil(seconds * 1000), giveBack: () => {} };
    }
    const at = this.#refilled;
    this.#taken++;
    moveToEnd(this.#debts, client, { amount: debt + 1, at }, MOST_CLIENTS);
    let isGivenBack = false;
    const giveBack = () => {
      if (isGivenBack) return;
      isGivenBack = true;
      this.#giveBack(client, at);
    };
    return { waitMs: 0, giveBack };
  }

  #giveBack(client: string, takenAt: number): void {
    this.#refill();
    const rest = Math.exp(takenAt - this.#refilled);
    this.#taken = Math.max(0, this.#taken - rest);
    const debt = this.#debtOf(client) - rest;
    if (debt > TOLERANCE) this.#debts.set(client, { amount: debt, at: this.#refilled });
    else this.#debts.delete(client);
  }

  #debtOf(client: string): number {
    const debt = this.#debts.get(client);
    return debt === undefined ? 0 : debt.amount * Math.exp(debt.at - this.#refilled);
  }

  #refill(): void {
    const now = this.#clock.now();
    // A clock that was set back refills nothing.
    const amount = (Math.max(0, now - this.#refilledAt) / 1000) * this.#pace.perSecond;
    this.#refilledAt = now;
    if (amount >= this.#taken) {
      this.#taken = 0;
      this.#refilled += ALL;
      this.#debts.clear();
    } else if (amount > 0) {
      this.#refilled -= Math.log(1 - amount / this.#taken);
      this.#taken -= amount;
    }
  }
}

function moveToEnd<V>(map: Map<string, V>, key: string, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= most) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
