/** Where containers are reached: what the database wants of them, and the addresses that the engine gave them. */
import type { ContainerState } from '../../proto/ports/engine.ts';
import { openPorts, wantedContainers } from '../../storage/gateway/routes.ts';
import type { ContainerTarget, GatewayDeps } from './deps.ts';

/** Containers that are asked about one by one; for more, one question about all is cheaper. */
const FEW = 20;

/** Finds containers that have a port open, with the address they have now. */
export class ContainerTargets {
  readonly #deps: Pick<GatewayDeps, 'db' | 'engine'>;
  /** Addresses of those that run, as they were seen last. */
  #addresses = new Map<string, string>();

  constructor(deps: Pick<GatewayDeps, 'db' | 'engine'>) {
    this.#deps = deps;
  }

  /**
   * All containers that have a port open, and the named ones, by id. The engine is asked about those that are `changed`
   * (`all`: about each); of the others the address may be the one found last. A container that is to stop has none,
   * since another may get it next. Rejects with StorageError and EngineError.
   */
  async find(
    also: ReadonlySet<string>,
    changed: ReadonlySet<string> | 'all',
  ): Promise<ReadonlyMap<string, ContainerTarget>> {
    const { db } = this.#deps;
    const rows = await openPorts(db);
    const ids = [...new Set([...also, ...rows.map(({ containerId }) => containerId)])];
    if (ids.length === 0) return new Map();
    await this.#observe(ids, changed);
    // Asked last: what was to stop by now may be listed as it was before.
    const wanted = await wantedContainers(db, ids);
    return targetsOf(ids, rows, (id) => {
      const status = wanted.get(id);
      const address = status === undefined ? undefined : this.#addresses.get(id);
      const isComing = address === undefined && status !== undefined && status !== 'failed' && status !== 'stopped';
      return { address, isComing };
    });
  }

  async #observe(ids: readonly string[], changed: ReadonlySet<string> | 'all'): Promise<void> {
    const { db, engine } = this.#deps;
    if (changed !== 'all') {
      const unsure = await wantedContainers(
        db,
        ids.filter((id) => changed.has(id) || !this.#addresses.has(id)),
      );
      if (unsure.size <= FEW) {
        await Promise.all([...unsure.keys()].map(async (id) => this.#note(id, await engine.inspect(id))));
        return;
      }
    }
    const states = await engine.list();
    this.#addresses = new Map();
    for (const state of states) this.#note(state.id, state);
  }

  #note(id: string, state: Pick<ContainerState, 'phase' | 'address'> | undefined): void {
    if (state?.phase === 'running' && state.address !== null) this.#addresses.set(id, state.address);
    else this.#addresses.delete(id);
  }
}

function targetsOf(
  ids: readonly string[],
  rows: Awaited<ReturnType<typeof openPorts>>,
  stateOf: (id: string) => Pick<ContainerTarget, 'address' | 'isComing'>,
): ReadonlyMap<string, ContainerTarget> {
  const ports = new Map(ids.map((id) => [id, new Map<number, number>()]));
  for (const { containerId, port, targetPort } of rows) ports.get(containerId)?.set(port, targetPort);
  return new Map([...ports].map(([id, open]) => [id, { ...stateOf(id), ports: open }]));
}
