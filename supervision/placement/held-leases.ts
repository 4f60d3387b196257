import type { Shard, ShardLease } from '../../proto/ports/placement.ts';

/** A shard of ours. While `leaving` its entities may still write, but get no messages. */
export interface Held extends ShardLease {
  leaving: boolean;
}

/** The shards that a node holds. Asking for one costs the same however many there are; all are listed by themselves. */
export class HeldLeases {
  readonly #services: ReadonlyMap<string, { readonly slots: (Held | undefined)[]; readonly held: Set<Held> }>;

  constructor(services: readonly string[], count: number) {
    const empty = () => ({ slots: new Array<Held | undefined>(count).fill(undefined), held: new Set<Held>() });
    this.#services = new Map(services.map((service) => [service, empty()]));
  }

  get size(): number {
    let size = 0;
    for (const { held } of this.#services.values()) size += held.size;
    return size;
  }

  get(service: string, shard: number): Held | undefined {
    return this.#services.get(service)?.slots[shard];
  }

  /** Whether this very lease is held, not one under another epoch. */
  has(held: Held): boolean {
    return this.get(held.service, held.shard) === held;
  }

  /** Those of a service, in no order. */
  of(service: string): Iterable<Held> {
    return this.#services.get(service)?.held ?? [];
  }

  *all(): Iterable<Held> {
    for (const { held } of this.#services.values()) yield* held;
  }

  /** Holds it from now on. Returns false for a service that this node never holds. */
  add(held: Held): boolean {
    const of = this.#services.get(held.service);
    const former = of?.slots[held.shard];
    if (former !== undefined) of?.held.delete(former);
    of?.held.add(held);
    if (of !== undefined) of.slots[held.shard] = held;
    return of !== undefined;
  }

  /** Lets go of it, unless the shard is held anew. */
  remove(held: Held): void {
    const of = this.#services.get(held.service);
    of?.held.delete(held);
    if (of?.slots[held.shard] === held) of.slots[held.shard] = undefined;
  }
}

/** The name of a shard among those of all services. */
export function keyOf({ service, shard }: Shard): string {
  return `${service}/${shard}`;
}
