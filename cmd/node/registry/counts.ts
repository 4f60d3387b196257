/** Counts what users have in a store: each of them once at a time. */
import type { ImageStore } from './image-store.ts';
import type { Counted } from './quota-rules.ts';
import { type StoreUsage, usageOf } from './usage.ts';

/**
 * `knownMs`: what was counted is good for so long, as what was written since is added to it. `toldMs`: what a user is
 * told is counted anew after this. `againMs`: how long it is from a collection for one user to the next one.
 */
export interface CountTimes {
  readonly knownMs: number;
  readonly toldMs: number;
  readonly againMs: number;
}

const TIMES: CountTimes = { knownMs: 60_000, toldMs: 3000, againMs: 5000 };
/** Where each look costs something. */
const REMOTE_TIMES: CountTimes = { knownMs: 10 * 60_000, toldMs: 3000, againMs: 60_000 };
/** What was counted is good for so many requests. */
const MOST_WRITES = 500;
/** How long it may be counted there: a push waits for it, ms. */
const COUNT_MS = 15_000;

/** See above. */
export class UserCounts {
  readonly times: CountTimes;
  readonly #store: ImageStore;

  constructor(store: ImageStore) {
    this.#store = store;
    this.times = store.isRemote ? REMOTE_TIMES : TIMES;
  }

  /** What the store has of a user. `isNew`: as it is now, not as it was before what writes tell. */
  async of(owner: string, user: Counted, isNew: boolean): Promise<StoreUsage> {
    const { known, turn } = user;
    const isGood =
      known !== undefined && performance.now() - known.at < this.times.knownMs && user.writes.size < MOST_WRITES;
    if (isGood && !isNew) return known.usage;
    if (user.counting === undefined) return this.#counting(owner, user);
    if (user.counting.turn === turn) return user.counting.usage;
    if (user.next === undefined) {
      const start = () => {
        user.next = undefined;
        return this.#counting(owner, user);
      };
      user.next = user.counting.usage.then(start, start);
    }
    return user.next;
  }

  /** The same, beside what is counted for pushes. */
  anew(owner: string): Promise<StoreUsage> {
    const signal = this.#store.isRemote ? AbortSignal.timeout(COUNT_MS) : undefined;
    return usageOf(this.#store, owner, Date.now(), signal);
  }

  #counting(owner: string, user: Counted): Promise<StoreUsage> {
    const { turn } = user;
    // It is over before those that wait for it go on, or count again.
    const usage = this.anew(owner).then(
      (counted) => {
        user.counting = undefined;
        if ((user.known?.turn ?? -1) > turn) return counted;
        user.known = { turn, at: performance.now(), usage: counted };
        for (const write of user.writes) if (write.over !== undefined && write.over <= turn) user.writes.delete(write);
        return counted;
      },
      (cause: unknown) => {
        user.counting = undefined;
        throw cause;
      },
    );
    user.counting = { turn, usage };
    return usage;
  }
}
