/** Where containers are reached: what the database wants of them, and the addresses that the engine gave them. */
import type { ContainerState } from '../../proto/ports/engine.ts';
import type { OpenContainer } from '../../storage/gateway/routes.ts';
import type { ContainerTarget, GatewayDeps } from './deps.ts';
import { OpenContainers } from './open-containers.ts';

/** Containers that are asked about one by one; for more, one question about all is cheaper. */
const FEW = 20;

/** Finds containers that have a port open, with the address they have now. */
export class ContainerTargets {
  /** What the database says of them. */
  readonly containers: OpenContainers;
  readonly #engine: GatewayDeps['engine'];
  /** Addresses of those that run, as they were seen last. */
  #addresses = new Map<string, string>();

  constructor({ db, engine }: Pick<GatewayDeps, 'db' | 'engine'>) {
    this.containers = new OpenContainers(db);
    this.#engine = engine;
  }

  /**
   * All containers that have a port open, and the named ones, by id. The engine is asked about those that are `changed`
   * (`all`: about each); of the others the address may be the one found last. A container that is to stop has none,
   * since another may get it next. With `sweeps` a page of all rows is read again. Rejects with StorageError and
   * EngineError.
   */
  async find(
    also: ReadonlySet<string>,
    changed: ReadonlySet<string> | 'all',
    sweeps: boolean,
  ): Promise<ReadonlyMap<string, ContainerTarget>> {
    await this.containers.read(also);
    if (sweeps) await this.containers.sweep(also);
    const ids = this.containers.ids(also);
    if (ids.length === 0) return new Map();
    await this.#observe(ids, changed);
    // Read once more: what was to stop by now may be listed as it was before.
    await this.containers.read(also);
    return new Map(ids.map((id) => [id, this.#targetOf(id)]));
  }

  async #observe(ids: readonly string[], changed: ReadonlySet<string> | 'all'): Promise<void> {
    if (changed !== 'all') {
      const unsure = ids.filter(
        (id) => (changed.has(id) || !this.#addresses.has(id)) && this.containers.get(id)?.isWanted === true,
      );
      if (unsure.length <= FEW) {
        await Promise.all(unsure.map(async (id) => this.#note(id, await this.#engine.inspect(id))));
        return;
      }
    }
    const states = await this.#engine.list();
    this.#addresses = new Map();
    for (const state of states) this.#note(state.id, state);
  }

  #note(id: string, state: Pick<ContainerState, 'phase' | 'address'> | undefined): void {
    if (state?.phase === 'running' && state.address !== null) this.#addresses.set(id, state.address);
    else this.#addresses.delete(id);
  }

  #targetOf(id: string): ContainerTarget {
    const row = this.containers.get(id);
    const open = row === undefined ? { ports: new Map<number, number>() } : openOf(row);
    if (row?.isWanted !== true) return { address: undefined, isComing: false, ...open };
    // What runs of one that is about to be started, or started again, is told to end.
    const address = row.status === 'pending' ? undefined : this.#addresses.get(id);
    const isComing = address === undefined && row.status !== 'failed' && row.status !== 'stopped';
    return { address, isComing, ...open };
  }
}

/** Whose a container is, what is open of it, at which name, and whom it is open to. */
function openOf(row: OpenContainer): Omit<ContainerTarget, 'address'> {
  const { id, userId, addressName, ports, endsTls, caches, guarded } = row;
  return {
    owner: userId,
    ...(addressName === null ? {} : { addressName }),
    ports: new Map([...ports, ...guarded.map(({ port, inside }) => [port, inside] as const)]),
    ...(caches.length === 0 ? {} : { caches: new Map(caches.map(({ port, cache }) => [port, cache])) }),
    endsTls: new Set([...endsTls, ...guarded.map(({ port }) => port)]),
    guards: new Map(guarded.map(({ port, rule, hash }) => [port, { containerId: id, port, rule, hash }])),
  };
}
