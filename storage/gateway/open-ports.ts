/** SQL of what containers have open to the outside. */
import { z } from 'zod';
import { type ContainerStatus, statusSchema } from '../../proto/compute/fields.ts';
import type { Queries } from '../db.ts';

const portRow = z
  .object({ container_id: z.string(), port: z.number(), target_port: z.number() })
  .transform((row) => ({ containerId: row.container_id, port: row.port, targetPort: row.target_port }));

/** All ingress rules of all containers: external port, and the port inside. */
export function openPorts(db: Queries): Promise<{ containerId: string; port: number; targetPort: number }[]> {
  return db.many(portRow, 'select container_id, port, target_port from open_ports order by container_id, port');
}

const wantedRow = z.object({ id: z.string(), status: statusSchema });

/**
 * Those of the containers that are to run, with their status: the address of any other may soon be another container's.
 */
export async function wantedContainers(db: Queries, ids: readonly string[]): Promise<Map<string, ContainerStatus>> {
  const rows = await db.many(
    wantedRow,
    `select id, status from known_containers where id = any($1::text[]) and desired = 'running'`,
    [ids],
  );
  return new Map(rows.map(({ id, status }) => [id, status]));
}
