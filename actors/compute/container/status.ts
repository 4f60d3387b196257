/** The status of a container as it is written: to the row first, and then to all that want to hear of it. */

import { notificationEvent } from '../../../proto/notify/notification.ts';
import { type ContainerRow, setStatus } from '../../../storage/compute/containers.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import { dispatch, type Ref } from '../../../supervision/index.ts';
import type { ConnectionEnd, ConnectionMessage } from '../../service/connection.ts';
import type { ComputeDeps } from '../deps.ts';
import { externalIp } from '../views.ts';
import type { ContainerActorState, ContainerContext } from './state.ts';

/** A change of status: why, where it is reached, and whether its workload ended without anybody's wish. */
interface Change {
  readonly reason?: string | null;
  readonly address?: string | null;
  readonly externalAddress?: string | null;
  readonly ended?: boolean;
}

/** Writes the status of containers. */
export class StatusWriter {
  readonly #deps: Pick<ComputeDeps, 'db' | 'clock' | 'log'>;
  readonly #onStatus: (row: ContainerRow) => void;

  /** `onStatus` hears of every change after it is written. */
  constructor(deps: Pick<ComputeDeps, 'db' | 'clock' | 'log'>, onStatus: (row: ContainerRow) => void) {
    this.#deps = deps;
    this.#onStatus = onStatus;
  }

  /**
   * Writes a status, with the notice and the news of it. Resolves with whether the row is as it was thought to be; if
   * it is not, another look is due. Rejects with StorageError, or PlacementError `fenced`.
   */
  async set(state: ContainerActorState, next: ContainerRow['status'], change: Change = {}): Promise<boolean> {
    const { row } = state;
    const { reason = null, address = null, externalAddress = null, ended = false } = change;
    const isSame = row.statusReason === reason && row.address === address && row.externalAddress === externalAddress;
    if (row.status === next && isSame) return true;
    const announced = next === 'running' && row.announce;
    const notice = announced
      ? startedNotice(row, this.#deps.clock.now())
      : next === 'failed' || (ended && row.status === 'running')
        ? stoppedNotice(row, this.#deps.clock.now(), reason ?? 'it ended')
        : undefined;
    const written = await fenced(this.#deps.db, state.lease, async (tx) => {
      const { keysApplied } = row;
      const to = { from: row.status, status: next, reason, address, externalAddress, announced, keysApplied };
      const changed = await setStatus(tx, row.id, to);
      if (changed !== undefined && notice !== undefined) await append(tx, notice);
      // At the commit that makes it visible: gateways lead there by then, or keep who asks waiting until they do.
      if (changed !== undefined) await tellCompute(tx, { kind: 'status', containerId: row.id, status: next });
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

  /** Takes a row that was written or read; whoever watches hears when its status is another. */
  applyRow(state: ContainerActorState, row: ContainerRow): void {
    const before = state.row;
    state.row = row;
    if (row.statusSince.getTime() !== before.statusSince.getTime()) state.triedSince = this.#deps.clock.now();
    if (row.desired === 'deleted') return;
    if (row.status === before.status && row.address === before.address && externalIp(row) === externalIp(before))
      return;
    if (row.status !== 'running') closeTerminals(state, closeReason(row.status));
    this.#onStatus(row);
  }
}

/** Lets a terminal in, unless the container stopped between the permission and the connection. */
export function attachTerminal(
  state: ContainerActorState,
  ctx: ContainerContext,
  terminal: Ref<ConnectionMessage>,
): void {
  if (state.row.status !== 'running') {
    dispatch(terminal, { type: 'close', ...closeReason(state.row.status) });
    return;
  }
  dispatch(terminal, { type: 'attached', by: ctx.self });
  state.terminals.add(terminal);
  ctx.watch(terminal, () => ({ type: 'detached', terminal }));
}

/** Closes all terminals of the container. */
export function closeTerminals(state: ContainerActorState, end: ConnectionEnd): void {
  for (const terminal of state.terminals) dispatch(terminal, { type: 'close', ...end });
  state.terminals.clear();
}

/** How a stream of a container that does not run (any more) is closed: 1012 asks its client to come back. */
export function closeReason(status: ContainerRow['status']): ConnectionEnd {
  if (status === 'stopped' || status === 'failed') return { code: 1000, reason: `container ${status}` };
  return { code: 1012, reason: 'container restarts' };
}

type Named = Pick<ContainerRow, 'id' | 'userId' | 'name'>;

/** It runs, as was asked for. `now`: Unix ms. */
function startedNotice(row: Named, now: number) {
  return notice(row, now, 'Container started', `"${row.name}" is running.`);
}

/** It does not run any more. `why` completes "name: ...". */
export function stoppedNotice(row: Named, now: number, why: string) {
  return notice(row, now, 'Container stopped', `"${row.name}": ${why}.`);
}

function notice({ id, userId }: Named, now: number, title: string, message: string) {
  return notificationEvent('compute', now, {
    userId,
    title,
    message,
    link: `/containers/${id}`,
    category: 'compute',
    scope: '',
  });
}
