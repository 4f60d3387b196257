/** Where password hashes wait for a core: bounded, and fair between those who brought them. */
import type { ClientNetwork } from '../../../proto/client-network.ts';
import { Refusal } from '../../../proto/errors.ts';

interface HashQueueOptions {
  /** Hashes at work at once. */
  readonly concurrency: number;
  /** Hashes that wait, of all clients together. */
  readonly capacity: number;
  /** Hashes of one site that wait. */
  readonly perSite: number;
}

interface WaitingHash {
  readonly begin: () => void;
  readonly refuse: () => void;
}

/** What waits for one site, by network; the network whose turn is next is first. */
interface SiteLane {
  readonly networks: Map<string, WaitingHash[]>;
  waiting: number;
}

/**
 * Runs work, `concurrency` at a time. Sites take turns, and so do the networks of a site: one that brings many makes
 * itself slow. Past a bound the answer is `overloaded`, since a client that has waited for seconds has gone away. Where
 * a bound is met, whoever has fewer takes the last place of whoever has most: a site in the queue, a network in its
 * site.
 */
export class HashQueue {
  readonly #options: HashQueueOptions;
  /** Sites with something that waits, the next one first. */
  readonly #sites = new Map<string, SiteLane>();
  #waiting = 0;
  #free: number;

  constructor(options: HashQueueOptions) {
    this.#options = options;
    this.#free = options.concurrency;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Whether work of this client would be refused now. */
  isFullFor(client: ClientNetwork): boolean {
    return this.#free === 0 && this.#roomFor(client) === 'none';
  }

  /** Runs `work` when its turn comes. Rejects with what it rejects with, or Refusal `overloaded`. */
  async run<T>(client: ClientNetwork, work: () => Promise<T>): Promise<T> {
    if (this.isFullFor(client)) throw new Refusal('overloaded');
    if (this.#free > 0) this.#free--;
    else await this.#turn(client);
    try {
      return await work();
    } finally {
      this.#next();
    }
  }

  #turn(client: ClientNetwork): Promise<void> {
    const room = this.#roomFor(client);
    if (typeof room === 'object') this.#refuseLast(room);
    return new Promise((begin, reject) => {
      const waiting = { begin, refuse: () => reject(new Refusal('overloaded')) };
      const { network, site } = client;
      let lane = this.#sites.get(site);
      if (lane === undefined) {
        lane = { networks: new Map(), waiting: 0 };
        this.#sites.set(site, lane);
      }
      const queue = lane.networks.get(network);
      if (queue === undefined) lane.networks.set(network, [waiting]);
      else queue.push(waiting);
      lane.waiting++;
      this.#waiting++;
    });
  }

  /** Whether there is a place for this client; where one must be taken from, the site that loses its last. */
  #roomFor({ network, site }: ClientNetwork): 'free' | 'none' | SiteLane {
    const { capacity, perSite } = this.#options;
    const own = this.#sites.get(site);
    if (own !== undefined && own.waiting >= perSite) {
      const longest = longestOf(own);
      return longest.length > (own.networks.get(network)?.length ?? 0) + 1 ? own : 'none';
    }
    if (this.#waiting < capacity) return 'free';
    // At most `capacity` sites are looked at, and only while the queue is full.
    let most: SiteLane | undefined;
    for (const lane of this.#sites.values()) if (lane.waiting > (most?.waiting ?? 0)) most = lane;
    return most !== undefined && most.waiting > (own?.waiting ?? 0) + 1 ? most : 'none';
  }

  /** Refuses what came last to the network that has most of this site. */
  #refuseLast(lane: SiteLane): void {
    // Who loses a place has at least two, so no queue becomes empty.
    const last = longestOf(lane).pop();
    if (last === undefined) return;
    lane.waiting--;
    this.#waiting--;
    last.refuse();
  }

  #next(): void {
    const [first] = this.#sites;
    if (first === undefined) {
      this.#free++;
      return;
    }
    const [site, lane] = first;
    const [[network, queue] = ['', [] as WaitingHash[]]] = lane.networks;
    const waiting = queue.shift();
    // Each goes to the end of its line, or out of it.
    lane.networks.delete(network);
    if (queue.length > 0) lane.networks.set(network, queue);
    lane.waiting--;
    this.#waiting--;
    this.#sites.delete(site);
    if (lane.waiting > 0) this.#sites.set(site, lane);
    waiting?.begin();
  }
}

function longestOf(lane: SiteLane): WaitingHash[] {
  return [...lane.networks.values()].reduce((most, queue) => (queue.length > most.length ? queue : most), []);
}
