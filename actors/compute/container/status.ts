/** The status of a container as it is written: to the row first, and then to all that want to hear of it. */
import type { ContainerState } from '../../../proto/ports/engine.ts';
import { type ContainerRow, noteRun, setStatus } from '../../../storage/compute/containers.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import type { ComputeDeps } from '../deps.ts';
import { externalIp } from '../views.ts';
import { closeReason, closeTerminals } from './attached-terminals.ts';
import { startedNotice, stoppedNotice } from './notices.ts';
import { noteRan } from './revisions.ts';
import { newsOfRun, withKeysApplied } from './rules.ts';
import type { ContainerActorState } from './state.ts';
import { goBack } from './way-back.ts';

/** A change of status: why, where it is reached, and whether its workload ended without anybody's wish. */
interface Change {
  readonly reason?: string | null;
  readonly address?: string | null;
  readonly externalAddress?: string | null;
  readonly ended?: boolean;
  /** When the engine started it, Unix ms. */
  readonly startedAt?: number | null;
  /** It is started again after a crash. */
  readonly restarted?: boolean;
  /** It is not to run any more. */
  readonly isOver?: boolean;
  /** Of the image that it was made of. */
  readonly digest?: string;
  /** The end of the log of what ended. */
  readonly log?: readonly string[];
}

/** Writes the status of containers. */
export class StatusWriter {
  readonly #deps: ComputeDeps;
  readonly #onStatus: (row: ContainerRow) => void;

  /** `onStatus` hears of every change after it is written. */
  constructor(deps: ComputeDeps, onStatus: (row: ContainerRow) => void) {
    this.#deps = deps;
    this.#onStatus = onStatus;
  }

  /**
   * Writes a status, with the notice and the news of it. Resolves with whether the row is as it was thought to be; if
   * it is not, another look is due. Rejects with StorageError, or PlacementError `fenced`.
   */
  async set(state: ContainerActorState, next: ContainerRow['status'], change: Change = {}): Promise<boolean> {
    const { row } = state;
    const { reason = null, address = null, externalAddress = null, ended = false, restarted = false, isOver } = change;
    const startedAt = typeof change.startedAt === 'number' ? new Date(change.startedAt) : null;
    const isSame = row.statusReason === reason && row.address === address && row.externalAddress === externalAddress;
    if (row.status === next && isSame) return true;
    if ((next === 'failed' || isOver) && row.formerImage !== undefined)
      return this.#goBack(state, reason ?? 'it ended', change.log);
    const announced = next === 'running' && row.announce;
    const notice = announced
      ? startedNotice(row, this.#deps.clock.now())
      : next === 'failed' || next === 'stopped' || (ended && row.status === 'running')
        ? stoppedNotice(row, this.#deps.clock.now(), reason ?? 'it ended')
        : undefined;
    const written = await fenced(this.#deps.db, state.lease, async (tx) => {
      const { keysApplied } = row;
      const to = { from: row.status, status: next, reason, address, externalAddress, announced, keysApplied };
      const changed = await setStatus(tx, row.id, { ...to, startedAt, restarted, isOver });
      if (changed !== undefined && notice !== undefined) await append(tx, notice);
      if (changed?.status === 'running' && row.status !== 'running')
        await noteRan(this.#deps, tx, changed, change.digest);
      // At the commit that makes it visible: gateways lead there by then, or keep who asks waiting until they do.
      if (changed !== undefined) {
        const told = next === 'stopped' ? ({ kind: 'stopped' } as const) : ({ kind: 'status', status: next } as const);
        await tellCompute(tx, { ...told, containerId: row.id });
      }
      return changed;
    });
    if (written === undefined) {
      // Being deleted, or an earlier write had come through unheard: read what the row says.
      state.reconcileAgain = true;
      return false;
    }
    this.#deps.log.info(
      { containerId: row.id, userId: row.userId, from: row.status, to: next, reason },
      'container status',
    );
    this.applyRow(state, written);
    return true;
  }

  /** A change that did not lead anywhere is given up: what is written is the way back. As `set` otherwise. */
  async #goBack(state: ContainerActorState, why: string, log: readonly string[] = []): Promise<boolean> {
    const written = await goBack(this.#deps, state, why, { answers: state.answers.texts(), log });
    // Either way there is more to do.
    state.reconcileAgain = true;
    if (written !== undefined) this.applyRow(state, written);
    return written !== undefined;
  }

  /** Writes down when it was started last and how it ended, for its user. Rejects as `set` does. */
  async noteRun(state: ContainerActorState, actual: ContainerState): Promise<void> {
    const { row } = state;
    const run = newsOfRun(row, actual, this.#deps.clock.now());
    if (run === undefined || row.desired === 'deleted') return;
    const noted = await fenced(this.#deps.db, state.lease, (tx) => noteRun(tx, row.id, run));
    if (noted !== undefined) this.applyRow(state, withKeysApplied(noted, row.keysApplied));
  }

  /** Takes a row that was written or read; whoever watches hears when its status or its name is another. */
  applyRow(state: ContainerActorState, row: ContainerRow): void {
    const before = state.row;
    state.row = row;
    if (row.statusSince.getTime() !== before.statusSince.getTime()) state.triedSince = this.#deps.clock.now();
    if (row.desired === 'deleted') return;
    const isSame = row.status === before.status && row.address === before.address && row.name === before.name;
    if (isSame && externalIp(row) === externalIp(before)) return;
    if (row.status !== 'running') closeTerminals(state, closeReason(row.status));
    this.#onStatus(row);
  }
}
