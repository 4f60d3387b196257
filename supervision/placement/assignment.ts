import { nodeSeed, shardSeed, suits } from './shards.ts';

/** How many values `suits` has. */
const RANGE = 2 ** 32;

/** Nodes of one weight, and for each shard the one of them that suits it best. */
class Peers {
  readonly best: (string | undefined)[];
  /** How well that one suits; -1 without one. */
  readonly highest: Float64Array;
  #ids: string[] = [];

  constructor(count: number) {
    this.best = new Array(count).fill(undefined);
    this.highest = new Float64Array(count).fill(-1);
  }

  get size(): number {
    return this.#ids.length;
  }

  /** Makes these its nodes: what comes is compared with the best, and only what went is searched for anew. */
  become(ids: readonly string[], shards: Int32Array): boolean {
    const [next, known] = [new Set(ids), new Set(this.#ids)];
    const gone = new Set(this.#ids.filter((id) => !next.has(id)));
    const come = ids.filter((id) => !known.has(id));
    if (gone.size === 0 && come.length === 0) return false;
    this.#ids = [...ids];
    const [all, some] = [Int32Array.from(ids, nodeSeed), Int32Array.from(come, nodeSeed)];
    for (const [shard, seed] of shards.entries()) {
      const best = this.best[shard];
      if (best === undefined || !gone.has(best)) {
        this.#improve(shard, seed, come, some);
        continue;
      }
      this.best[shard] = undefined;
      this.highest[shard] = -1;
      this.#improve(shard, seed, ids, all);
    }
    return true;
  }

  #improve(shard: number, seed: number, ids: readonly string[], seeds: Int32Array): void {
    let best = this.best[shard];
    let highest = this.highest[shard] ?? -1;
    for (let at = 0; at < seeds.length; at++) {
      const value = suits(seeds[at] ?? 0, seed);
      if (value < highest) continue;
      const id = ids[at];
      // The first by name of two that suit the same.
      if (value === highest && best !== undefined && id !== undefined && id > best) continue;
      highest = value;
      best = id;
    }
    this.best[shard] = best;
    this.highest[shard] = highest;
  }
}

/**
 * Which node should hold each shard of a service, the same on every node and version: rendezvous hashing, so that a
 * node that comes or goes moves only what it gets or had. A node of twice the weight gets twice the shards.
 *
 * It is kept from one list of nodes to the next: a node that comes costs a comparison a shard, one that goes a search
 * for each of its shards.
 */
export class Assignment {
  readonly #shards: Int32Array;
  readonly #peers = new Map<number, Peers>();
  #owners: readonly (string | undefined)[];

  constructor(service: string, count: number) {
    this.#shards = Int32Array.from({ length: count }, (_, shard) => shardSeed(service, shard));
    this.#owners = new Array(count).fill(undefined);
  }

  /** The node of each shard, by shard; undefined without nodes. */
  get owners(): readonly (string | undefined)[] {
    return this.#owners;
  }

  /** Assigns the shards to these nodes, by id with their weights (more than 0). */
  update(nodes: ReadonlyMap<string, number>): void {
    const byWeight = new Map<number, string[]>([...this.#peers.keys()].map((weight) => [weight, []]));
    for (const [id, weight] of nodes) {
      const ids = byWeight.get(weight) ?? [];
      ids.push(id);
      byWeight.set(weight, ids);
    }
    let isChanged = false;
    for (const [weight, ids] of byWeight) {
      const peers = this.#peers.get(weight) ?? new Peers(this.#shards.length);
      if (peers.become(ids, this.#shards)) isChanged = true;
      if (peers.size === 0) this.#peers.delete(weight);
      else this.#peers.set(weight, peers);
    }
    if (isChanged) this.#owners = this.#chosen();
  }

  #chosen(): (string | undefined)[] {
    const [first, ...others] = this.#peers;
    if (first === undefined) return new Array(this.#shards.length).fill(undefined);
    if (others.length === 0) return [...first[1].best];
    return Array.from(this.#shards, (_, shard) => {
      let chosen: string | undefined;
      let highest = -1;
      for (const [weight, { best, highest: values }] of this.#peers) {
        const id = best[shard];
        // With equal weights this orders as the values do.
        const score = -weight / Math.log(((values[shard] ?? 0) + 0.5) / RANGE);
        if (score < highest || (score === highest && chosen !== undefined && id !== undefined && id > chosen)) continue;
        highest = score;
        chosen = id;
      }
      return chosen;
    });
  }
}
