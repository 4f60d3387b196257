/** What a user's connections are told of a container. */
import type { ComputeEvent } from '../../proto/compute/endpoints.ts';
import { dispatch } from '../../supervision/index.ts';
import type { PlacedStatus } from './placed.ts';
import type { ComputeUserState } from './user-state.ts';
import { externalIp } from './views.ts';

/** Sends a container's status to the user's connections of version 1, encoded once. */
export function pushStatus({ connections, followers }: ComputeUserState, row: PlacedStatus): void {
  if (connections.size === followers.size) return;
  const data = { container_id: row.id, status: row.status, external_ip: externalIp(row) };
  const text = JSON.stringify({ type: 'container_status', data } satisfies ComputeEvent);
  for (const connection of connections) if (!followers.has(connection)) dispatch(connection, { type: 'send', text });
}
