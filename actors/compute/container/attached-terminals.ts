/** The terminals that depend on a container: they are let in while it runs, and closed when it does not any more. */
import type { ContainerRow } from '../../../storage/compute/containers.ts';
import { dispatch, type Ref } from '../../../supervision/index.ts';
import type { ConnectionEnd, ConnectionMessage } from '../../service/connection.ts';
import type { ContainerActorState, ContainerContext } from './state.ts';

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
