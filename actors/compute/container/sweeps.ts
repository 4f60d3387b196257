/**
 * Comparisons of rows with what the engine has, for the containers of one node: what changed and was not settled
 * before, or all. They decide nothing; they tell containers' actors to look.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../../lib/errors.ts';
import type { ContainerState } from '../../../proto/ports/engine.ts';
import { deletedAmong } from '../../../storage/compute/deleted.ts';
import { type ContainerOutline, changedOutlines, containerOutlines } from '../../../storage/compute/outlines.ts';
import type { ComputeDeps } from '../deps.ts';
import { COMPUTE_CONTAINER, SERVICE } from '../placed.ts';
import { driftOf, isHealthOpen, nextStep } from './rules.ts';

/** How often all is compared although nothing says so, ms. */
const SWEEP_EVERY_MS = 60_000;
/** So many actors are told in a row, then comes a pause, ms: thousands at once would hold up the database. */
const LOOKS_IN_A_ROW = 25;
const PAUSE_MS = 100;

/** What the watcher knows of the engine, for the service's health. */
export interface EngineHealth {
  /** A sentence for operators; undefined while the engine answers. */
  problem: string | undefined;
  /** How often the connection to it was made: another number means that it may have been restarted in between. */
  connections: number;
}

/** What they need. */
type SweepDeps = Pick<ComputeDeps, 'db' | 'engine' | 'log' | 'clock'> & {
  readonly placement: Pick<ComputeDeps['placement'], 'holds' | 'held'>;
};

/** What the comparisons of a node remember. `reconcile` wakes a container's actor. */
export class Sweeps {
  readonly #deps: SweepDeps;
  readonly #reconcile: (containerId: string) => void;
  readonly #health: EngineHealth;
  /** Containers of the engine without a row, that were told of. */
  readonly #strangers = new Set<string>();
  /** Differences that an actor was told of, and may have found to be there for good. */
  readonly #told = new Map<string, string>();
  /** Containers that something happened to, or that were not settled when they were looked at. */
  readonly #unsettled = new Set<string>();
  /** Up to where changes of rows were seen; undefined: all is to be compared. */
  #mark: string | undefined;
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(deps: SweepDeps, reconcile: (containerId: string) => void, health: EngineHealth) {
    this.#deps = deps;
    this.#reconcile = reconcile;
    this.#health = health;
  }

  /** Something happened to a container in the engine: its actor looks, and the next `look` whether that helped. */
  changed(id: string): void {
    if (!this.#isOurs(id)) return;
    this.#unsettled.add(id);
    this.#reconcile(id);
  }

  /** Compares all. Rejects with StorageError and EngineError. */
  async sweep(signal: AbortSignal): Promise<void> {
    const { db, placement } = this.#deps;
    this.#mark = undefined;
    const found = await this.#list();
    if (found === undefined) return;
    const { rows, mark } = await containerOutlines(db, placement.held(SERVICE));
    this.#unsettled.clear();
    if (!(await this.#compare(rows, found, signal))) return;
    this.#mark = mark;
    this.#sweptAt = performance.now();
  }

  /** Compares what changed or was not settled; all, when it is time or a comparison failed. Rejects as `sweep`. */
  async look(signal: AbortSignal): Promise<void> {
    const { db, placement } = this.#deps;
    const since = this.#mark;
    if (since === undefined || performance.now() - this.#sweptAt >= SWEEP_EVERY_MS) return this.sweep(signal);
    this.#mark = undefined;
    const suspects = [...this.#unsettled];
    const { rows, mark } = await changedOutlines(db, placement.held(SERVICE), since, suspects);
    const found = await this.#list([...new Set([...suspects, ...rows.map(({ id }) => id)])]);
    if (found === undefined) return;
    this.#unsettled.clear();
    if (await this.#compare(rows, found, signal)) this.#mark = mark;
  }

  #isOurs(id: string): boolean {
    return this.#deps.placement.holds(COMPUTE_CONTAINER, id);
  }

  /** What the engine has, or its part of `ids`; undefined, and said once, while it does not answer. */
  async #list(ids?: readonly string[]): Promise<ContainerState[] | undefined> {
    const { engine, log } = this.#deps;
    let found: ContainerState[];
    try {
      found = await engine.list(ids);
    } catch (error) {
      if (this.#health.problem === undefined) log.error({ err: error }, 'the container engine does not answer');
      this.#health.problem = `container engine: ${errorText(error)}`;
      return undefined;
    }
    if (this.#health.problem !== undefined) log.info({}, 'the container engine answers again');
    this.#health.problem = undefined;
    return found.filter(({ id }) => this.#isOurs(id));
  }

  /** Resolves with whether it came to the end. */
  async #compare(
    rows: readonly ContainerOutline[],
    found: readonly ContainerState[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const actual = new Map(found.map((state) => [state.id, state]));
    let looks = 0;
    for (const row of rows) {
      if (!this.#isOurs(row.id)) continue;
      const state = actual.get(row.id);
      actual.delete(row.id);
      const drift = state?.phase === 'running' ? driftOf(row, state) : undefined;
      const isSettled = nextStep(row, state, this.#told.get(row.id)) === 'settled';
      // One that is not well is looked at by its actor, which has to be awake: to say so now and then is enough.
      if (!isSettled || isHealthOpen(row, this.#deps.clock.now())) {
        if (!isSettled) this.#unsettled.add(row.id);
        this.#reconcile(row.id);
        looks += 1;
        if (looks % LOOKS_IN_A_ROW === 0) await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return false;
      }
      if (drift === undefined) this.#told.delete(row.id);
      else this.#told.set(row.id, drift);
    }
    if (actual.size > 0) await this.#meet([...actual.keys()]);
    return true;
  }

  /** Containers without a row. What was deleted for certain goes; of anything else a person should decide. */
  async #meet(ids: readonly string[]): Promise<void> {
    const { db, engine, log } = this.#deps;
    const deleted = await deletedAmong(db, ids);
    for (const id of ids) {
      // A row is forgotten after its container is gone: one that is gone now was no stranger.
      if (this.#strangers.has(id) || (await engine.inspect(id)) === undefined) continue;
      if (deleted.includes(id)) {
        log.warn({ containerId: id }, 'removing a container whose creation outlasted its deletion');
        await engine.remove(id);
        continue;
      }
      log.warn({ containerId: id }, 'the engine has a container that the database does not know');
      this.#strangers.add(id);
    }
  }
}
