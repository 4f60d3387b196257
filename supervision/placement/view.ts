import type { BeatResult, Known, NodeInfo, ShardState } from '../../proto/ports/placement.ts';
import { assign } from './shards.ts';

/** Where a shard is: the node that owns it, under an epoch. */
export interface EntityPlace {
  readonly node: string;
  readonly epoch: number;
}

/** The cluster as one node knows it: put together from the views of its beats. */
export class ClusterView {
  /** The other living nodes. */
  readonly nodes = new Map<string, NodeInfo>();
  readonly #self: NodeInfo;
  readonly #count: number;
  readonly #shards = new Map<string, (ShardState | undefined)[]>();
  #assigned = new Map<string, (string | undefined)[]>();
  /** The services whose shards this node may hold. */
  #offered: readonly string[] = [];
  #known: Known = { stamp: '', mark: '' };

  constructor(self: NodeInfo, count: number) {
    this.#self = self;
    this.#count = count;
  }

  /** What the next beat need not bring. */
  get known(): Known {
    return this.#known;
  }

  /** Takes in a view. `offered`: whose shards this node may hold. Returns the ids of nodes that live no more. */
  update(view: BeatResult, offered: readonly string[]): string[] {
    const gone: string[] = [];
    if (view.nodes !== undefined) {
      const living = new Set(view.nodes.map(({ id }) => id));
      for (const id of this.nodes.keys()) if (!living.has(id)) gone.push(id);
      this.nodes.clear();
      for (const node of view.nodes) this.nodes.set(node.id, node);
    }
    if (view.nodes !== undefined || offered.join() !== this.#offered.join()) this.#assigned = new Map();
    this.#offered = offered;
    for (const shard of view.shards) this.note(shard);
    this.#known = { stamp: view.stamp, mark: view.mark };
    return gone;
  }

  /** Takes in what is known of a shard, unless something newer is. */
  note(state: ShardState): void {
    let shards = this.#shards.get(state.service);
    if (shards === undefined) {
      shards = new Array(this.#count).fill(undefined);
      this.#shards.set(state.service, shards);
    }
    const known = shards[state.shard];
    if (known === undefined || known.epoch < state.epoch) shards[state.shard] = state;
  }

  /** What is known of a shard; undefined when nobody ever had it. */
  state(service: string, shard: number): ShardState | undefined {
    return this.#shards.get(service)?.[shard];
  }

  /** Who owns a shard, as far as is known; undefined when nobody who lives does. */
  placeOf(service: string, shard: number): EntityPlace | undefined {
    const state = this.state(service, shard);
    if (state?.owner === undefined || !this.lives(state.owner)) return undefined;
    return { node: state.owner, epoch: state.epoch };
  }

  lives(nodeId: string): boolean {
    return nodeId === this.#self.id || this.nodes.has(nodeId);
  }

  /** Which node should hold each shard of a service, by shard. */
  assignment(service: string): readonly (string | undefined)[] {
    let assigned = this.#assigned.get(service);
    if (assigned === undefined) {
      const ids = [...this.nodes.values()]
        .filter(({ draining, roles }) => !draining && roles.includes(service))
        .map(({ id }) => id);
      if (this.#offered.includes(service)) ids.push(this.#self.id);
      assigned = assign(service, this.#count, ids);
      this.#assigned.set(service, assigned);
    }
    return assigned;
  }
}
