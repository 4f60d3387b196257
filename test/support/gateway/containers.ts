/** Containers as a gateway finds them: rows in the database, and what an engine says of them. */
import type { ContainerState } from '../../../proto/ports/engine.ts';
import type { Queries } from '../../../storage/db.ts';

const SOMEBODY = 'uuuuuuuuuuu1';

/** Adds a container that is to run, with ports that lead to others (`ports`: from, to); without `userId`, of somebody new. */
export async function addContainer(
  db: Queries,
  id: string,
  options: {
    readonly userId?: string;
    readonly slot?: number;
    readonly name?: string;
    readonly storageGb?: number;
    readonly isSshEnabled?: boolean;
    readonly ports?: readonly (readonly [port: number, targetPort: number])[];
  } = {},
): Promise<void> {
  const { userId = SOMEBODY, slot = 1, name = id, storageGb = 5, isSshEnabled = false, ports = [] } = options;
  if (options.userId === undefined)
    await db.run(
      `insert into users (id, username, display_name, password_hash) values ($1, 'somebody', 'Somebody', 'x')
       on conflict do nothing`,
      [userId],
    );
  await db.run(
    `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths,
       ssh_enabled, desired, status)
     values ($1, $2, $3, $5, 'nano', 512, $6, 'IfNotPresent', '{/root}', $4, 'running', 'running')`,
    [id, userId, slot, isSshEnabled, name, storageGb],
  );
  for (const [port, targetPort] of ports)
    await db.run('insert into ingress_rules (container_id, port, target_port) values ($1, $2, $3)', [
      id,
      port,
      targetPort,
    ]);
}

/** What an engine says of a container that runs on this machine. */
export function runningState(id: string): ContainerState {
  return { id, phase: 'running', address: '127.0.0.1', exitCode: null, oomKilled: false, restarts: 0, startedAt: null };
}
