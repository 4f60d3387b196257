import type { BeatResult, Known, NodeInfo, ShardState } from '../../proto/ports/placement.ts';
import { Assignment } from './assignment.ts';

/** Where a shard is: the node that owns it, under an epoch. */
export interface EntityPlace {
  readonly node: string;
  readonly epoch: number;
}

/** The assignment of a service's shards to the nodes of one list, and which of them are this node's. */
interface Assigned {
  readonly assignment: Assignment;
  own: readonly number[];
  isOutdated: boolean;
}

/** The cluster as one node knows it: put together from the views of its beats. */
export class ClusterView {
  /** The other living nodes. */
  readonly nodes = new Map<string, NodeInfo>();
  readonly #self: NodeInfo;
  readonly #count: number;
  readonly #shards = new Map<string, (ShardState | undefined)[]>();
  /** By service, the shards of which this node is the owner. */
  readonly #owned = new Map<string, Set<number>>();
  readonly #assigned = new Map<string, Assigned>();
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
    if (view.nodes !== undefined || offered.join() !== this.#offered.join()) {
      for (const assigned of this.#assigned.values()) assigned.isOutdated = true;
    }
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
    if (known !== undefined && known.epoch >= state.epoch) return;
    shards[state.shard] = state;
    const owned = this.#owned.get(state.service) ?? new Set();
    if (state.owner === this.#self.id) this.#owned.set(state.service, owned.add(state.shard));
    else owned.delete(state.shard);
  }

  /** The shards of which this node is the owner as far as is known here, whether it holds them or not. */
  owned(service: string): Iterable<number> {
    return this.#owned.get(service) ?? [];
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

  /** The other nodes that should hold what these hold as far as is known. */
  heirs(of: ReadonlySet<string>): Set<string> {
    const heirs = new Set<string>();
    for (const [service, shards] of this.#shards) {
      const owners = this.assignment(service);
      for (const state of shards) {
        const heir = state?.owner !== undefined && of.has(state.owner) ? owners[state.shard] : undefined;
        if (heir !== undefined && heir !== this.#self.id) heirs.add(heir);
      }
    }
    return heirs;
  }

  /** Which node should hold each shard of a service, by shard. */
  assignment(service: string): readonly (string | undefined)[] {
    return this.#present(service).assignment.owners;
  }

  /** The shards of a service that this node should hold. */
  own(service: string): readonly number[] {
    return this.#present(service).own;
  }

  #present(service: string): Assigned {
    let assigned = this.#assigned.get(service);
    if (assigned === undefined) {
      assigned = { assignment: new Assignment(service, this.#count), own: [], isOutdated: true };
      this.#assigned.set(service, assigned);
    }
    if (!assigned.isOutdated) return assigned;
    const able = [...this.nodes.values()].filter(({ draining, roles }) => !draining && roles.includes(service));
    if (this.#offered.includes(service)) able.push(this.#self);
    assigned.assignment.update(new Map(able.map(({ id, weight }) => [id, weight])));
    assigned.own = assigned.assignment.owners.flatMap((id, shard) => (id === this.#self.id ? [shard] : []));
    assigned.isOutdated = false;
    return assigned;
  }
}
