/** Leases of a cluster in one process, over a clock that can be handed in. The rules are the database's. */
import {
  type BeatResult,
  type Known,
  type LeaseStore,
  type NodeInfo,
  PlacementError,
  type Shard,
  type ShardLease,
  type ShardState,
} from '../../proto/ports/placement.ts';

interface Row extends ShardState {
  /** When it changed last, in changes of the store. */
  readonly changed: number;
}

export class MemoryLeases implements LeaseStore {
  readonly rows = new Map<string, Row>();
  readonly nodes = new Map<string, { readonly info: NodeInfo; readonly expiresAt: number }>();
  readonly #now: () => number;
  #count: number | undefined;
  #changes = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  async beat(info: NodeInfo, ttlMs: number, known: Known): Promise<BeatResult> {
    this.nodes.set(info.id, { info, expiresAt: this.#now() + ttlMs });
    const others = [...this.nodes.values()]
      .filter((node) => node.info.id !== info.id && this.lives(node.info.id))
      .map((node) => node.info)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    const stamp = others.map(({ id, draining, roles, weight }) => `${id}${draining}${roles}${weight}`).join() || 'none';
    const since = known.mark === '' ? 0 : Number(known.mark);
    return {
      nodes: stamp === known.stamp ? undefined : others,
      stamp,
      shards: [...this.rows.values()]
        .filter(({ changed }) => changed > since)
        .map(({ service, shard, owner, epoch }) => ({ service, shard, owner, epoch })),
      mark: String(this.#changes),
    };
  }

  async take(nodeId: string, shards: readonly Shard[], count: number): Promise<ShardLease[]> {
    if (shards.length === 0) return [];
    if (this.#count !== undefined && this.#count !== count) {
      throw new PlacementError('mismatch', `cut into ${this.#count} shards, not ${count}`);
    }
    if (!this.lives(nodeId)) return [];
    this.#count = count;
    return shards.flatMap(({ service, shard }) => {
      const row = this.rows.get(`${service}/${shard}`);
      if (row?.owner !== undefined && row.owner !== nodeId && this.lives(row.owner)) return [];
      return [this.#set(service, shard, nodeId, row?.epoch ?? 0)];
    });
  }

  async release(nodeId: string, leases: readonly ShardLease[]): Promise<ShardLease[]> {
    for (const { service, shard, epoch } of leases) {
      const row = this.rows.get(`${service}/${shard}`);
      if (row?.owner === nodeId && row.epoch === epoch) this.#set(service, shard, undefined, epoch);
    }
    return [];
  }

  async leave(nodeId: string): Promise<void> {
    this.nodes.delete(nodeId);
    for (const row of this.rows.values()) {
      if (row.owner === nodeId) this.#set(row.service, row.shard, undefined, row.epoch);
    }
  }

  /** What a fenced write would find: throws like storage's `fence`. */
  fence({ service, shard, epoch }: ShardLease): void {
    const row = this.rows.get(`${service}/${shard}`);
    if (row?.epoch !== epoch || row.owner === undefined)
      throw new PlacementError('fenced', `${service}/${shard}@${epoch}`);
  }

  lives(nodeId: string): boolean {
    const node = this.nodes.get(nodeId);
    return node !== undefined && node.expiresAt > this.#now();
  }

  #set(service: string, shard: number, owner: string | undefined, epoch: number): ShardLease {
    this.#changes++;
    this.rows.set(`${service}/${shard}`, { service, shard, owner, epoch: epoch + 1, changed: this.#changes });
    return { service, shard, epoch: epoch + 1 };
  }
}
