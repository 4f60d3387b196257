/** Where password hashes wait for a core: bounded, and fair between those who brought them. */
import { Refusal } from '../../../proto/errors.ts';

interface HashRoomOptions {
  /** Hashes at work at once. */
  readonly seats: number;
  /** Hashes that wait, all lanes together. */
  readonly capacity: number;
  /** Hashes that wait in one lane. */
  readonly perLane: number;
}

/**
 * Runs work, `seats` at a time. Who waits stands in a lane (the network the password came from); lanes take turns, so
 * that one full lane does not make the others slow. Past a bound the answer is `overloaded`: who has waited for seconds
 * has gone away.
 */
export class HashRoom {
  readonly #perLane: number;
  readonly #capacity: number;
  /** Lanes with somebody in them, the next one first. */
  readonly #lanes = new Map<string, (() => void)[]>();
  #waiting = 0;
  #free: number;

  constructor({ seats, capacity, perLane }: HashRoomOptions) {
    this.#free = seats;
    this.#capacity = capacity;
    this.#perLane = perLane;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Whether work of this lane would be refused now. */
  full(lane: string): boolean {
    if (this.#free > 0) return false;
    return this.#waiting >= this.#capacity || (this.#lanes.get(lane)?.length ?? 0) >= this.#perLane;
  }

  /** Runs `work` when its turn comes. Rejects with what it rejects with, or Refusal `overloaded`. */
  async run<T>(lane: string, work: () => Promise<T>): Promise<T> {
    if (this.full(lane)) throw new Refusal('overloaded');
    if (this.#free > 0) this.#free--;
    else await this.#turn(lane);
    try {
      return await work();
    } finally {
      this.#next();
    }
  }

  #turn(lane: string): Promise<void> {
    return new Promise((resolve) => {
      const queue = this.#lanes.get(lane);
      if (queue === undefined) this.#lanes.set(lane, [resolve]);
      else queue.push(resolve);
      this.#waiting++;
    });
  }

  #next(): void {
    for (const [lane, queue] of this.#lanes) {
      const resolve = queue.shift();
      // To the end of the line of lanes, or out of it.
      this.#lanes.delete(lane);
      if (queue.length > 0) this.#lanes.set(lane, queue);
      if (resolve === undefined) continue;
      this.#waiting--;
      resolve();
      return;
    }
    this.#free++;
  }
}
