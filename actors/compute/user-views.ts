/** What connections that asked for version 2 are told: whole containers, deletions, and what they use. */
import type { ComputeEvent } from '../../proto/compute/endpoints.ts';
import { type ContainerRow, containerById } from '../../storage/compute/containers.ts';
import { dispatch } from '../../supervision/index.ts';
import { refusalOf } from '../service/dispatch.ts';
import type { ComputeDeps } from './deps.ts';
import type { PlacedStatus } from './placed.ts';
import type { ComputeUserState } from './user-state.ts';
import { containerView, externalIp, usageView } from './views.ts';

/** How often they are told what their containers use, ms. */
export const USAGE_EVERY_MS = 5000;

/** Closes a connection that was not told something: the next one begins with the whole list. */
export const NOT_AVAILABLE = { type: 'close', code: 1013, reason: 'not available, try again' } as const;

/** Tells all of them, encoded once. */
function tell({ followers }: ComputeUserState, event: ComputeEvent): void {
  const text = JSON.stringify(event);
  for (const follower of followers) dispatch(follower, { type: 'send', text });
}

/** Tells them of a row that was just written. */
export function pushView(deps: ComputeDeps, state: ComputeUserState, row: ContainerRow): void {
  if (state.followers.size === 0) return;
  if (row.status === 'running') state.running.add(row.id);
  else state.running.delete(row.id);
  tell(state, { type: 'container', data: containerView(row, deps) });
}

/** Reads a container that changed, and tells them. Without storage they come back for the list. */
export async function pushChanged(deps: ComputeDeps, state: ComputeUserState, containerId: string): Promise<void> {
  if (state.followers.size === 0) return;
  try {
    const row = await containerById(deps.db, containerId);
    if (row?.userId === state.userId && row.desired !== 'deleted') pushView(deps, state, row);
  } catch (error) {
    if (refusalOf(error).code !== 'unavailable') throw error;
    for (const follower of state.followers) dispatch(follower, NOT_AVAILABLE);
  }
}

/** Tells them that a container is being deleted. */
export function pushGone(state: ComputeUserState, containerId: string): void {
  state.running.delete(containerId);
  tell(state, { type: 'container_deleted', data: { container_id: containerId } });
}

/** Tells them what those that run use, if that is another than last time. */
export function pushUsage({ engine }: Pick<ComputeDeps, 'engine'>, state: ComputeUserState): void {
  const data = [...state.running].sort().map((id) => ({ container_id: id, ...usageView(engine.usage(id)) }));
  const text = JSON.stringify(data);
  if (text === state.usageTold) return;
  state.usageTold = text;
  tell(state, { type: 'usage', data });
}

/** What a user's connections are told of a container. */

/** Sends a container's status to the user's connections of version 1, encoded once. */
export function pushStatus({ connections, followers }: ComputeUserState, row: PlacedStatus): void {
  if (connections.size === followers.size) return;
  const data = { container_id: row.id, status: row.status, external_ip: externalIp(row) };
  const text = JSON.stringify({ type: 'container_status', data } satisfies ComputeEvent);
  for (const connection of connections) if (!followers.has(connection)) dispatch(connection, { type: 'send', text });
}
