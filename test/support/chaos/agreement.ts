/** Whether the rows, what the API says, what it pushed, and what Docker has are one and the same. */
import { z } from 'zod';
import type { Db } from '../../../storage/db.ts';
import type { DockerClient } from '../../../transports/engines/docker/api/client.ts';

/** What is compared. */
export interface Seen {
  readonly containers: readonly { readonly id: string; readonly status: string; readonly https_enabled: boolean }[];
  /** The last status pushed of each container. */
  readonly pushed: ReadonlyMap<string, string>;
  readonly db: Db;
  readonly docker: DockerClient;
  /** Docker's ids of what has processes. */
  readonly tasks: readonly string[];
}

const listed = z.array(z.object({ Id: z.string(), Labels: z.record(z.string(), z.string()) }));
const inspected = z.object({
  State: z.object({ Running: z.boolean(), Paused: z.boolean() }),
  HostConfig: z.object({ Memory: z.number() }),
  Mounts: z.array(z.object({ Name: z.string().default(''), Destination: z.string() })),
});
const row = z.object({
  id: z.string(),
  status: z.string(),
  status_reason: z.string().nullable(),
  desired: z.string(),
  memory_mb: z.number(),
  mount_paths: z.array(z.string()),
  keys_revision: z.number(),
  keys_applied: z.number(),
  restart: z.boolean(),
  https_enabled: z.boolean(),
  https_rule: z.boolean(),
});

/** All containers of platforms on this Docker Engine: its id, and the platform's. */
export async function dockerContainers(docker: DockerClient): Promise<{ dockerId: string; id: string }[]> {
  const filters = JSON.stringify({ label: ['troupe.container'] });
  const found = await docker.json('GET', '/containers/json', listed, { query: { all: true, filters } });
  // Helpers have the label too, with nothing in it.
  return found
    .map(({ Id, Labels }) => ({ dockerId: Id, id: Labels['troupe.container'] ?? '' }))
    .filter(({ id }) => id !== '');
}

/** What does not agree, in sentences; empty when all does, and nothing is under way. */
export async function disagreements({ containers, pushed, db, docker, tasks }: Seen): Promise<string[]> {
  const problems: string[] = [];
  const rows = await db.many(
    row,
    `select id, status, status_reason, desired, memory_mb, mount_paths, keys_revision, keys_applied, restart, https_enabled,
       exists (select from ingress_rules where container_id = containers.id and port = 443) as https_rule from containers`,
  );
  const inDocker = await dockerContainers(docker);
  const api = new Map(containers.map((one) => [one.id, one]));
  for (const { id } of inDocker) if (!api.has(id)) problems.push(`${id} is an orphan in Docker`);
  for (const { id, desired } of rows) if (!api.has(id)) problems.push(`${id} has a row (${desired}) and is not listed`);
  for (const { id, status, https_enabled } of containers) {
    const own = inDocker.filter((one) => one.id === id);
    const stored = rows.find((one) => one.id === id);
    if (stored === undefined) problems.push(`${id} has no row`);
    else {
      // Nothing here is a reason to give up, but ending more than five times within a minute.
      if (status === 'failed' && !/keeps crashing/.test(stored.status_reason ?? '')) {
        problems.push(`${id} has failed: ${stored.status_reason}`);
      }
      if (stored.status !== status) problems.push(`${id} is ${stored.status} in its row and ${status} in the API`);
      if (stored.https_enabled !== stored.https_rule || stored.https_enabled !== https_enabled)
        problems.push(`${id} has https_enabled ${https_enabled} and a rule: ${stored.https_rule}`);
    }
    if (pushed.get(id) !== status) problems.push(`${id} is ${status}, and ${pushed.get(id)} was pushed last`);
    if (status === 'pending' || status === 'initializing') problems.push(`${id} is still ${status}`);
    if (own.length > 1) problems.push(`${id} is there ${own.length} times`);
    const [first] = own;
    if (first === undefined) {
      if (status === 'running') problems.push(`${id} is running, and Docker has none`);
      continue;
    }
    const found = await docker.json('GET', `/containers/${first.dockerId}/json`, inspected);
    if (found.State.Running !== (status === 'running'))
      problems.push(`${id} is ${status}, and Running ${found.State.Running}`);
    if (status !== 'running' || stored === undefined) continue;
    if (found.State.Paused) problems.push(`${id} is running, and frozen`);
    if (found.HostConfig.Memory !== stored.memory_mb * 2 ** 20) problems.push(`${id} has other limits`);
    if (stored.keys_applied < stored.keys_revision || stored.restart) problems.push(`${id} has changes to come`);
    const mounted = found.Mounts.filter(
      ({ Name, Destination }) => Name.startsWith('troupe-') && Destination !== '/etc/troupe',
    );
    const paths = mounted.map(({ Destination }) => Destination).sort();
    if (paths.join() !== stored.mount_paths.toSorted().join()) problems.push(`${id} has mounts ${paths.join()}`);
  }
  const running = await docker.json('GET', '/containers/json', listed);
  for (const task of tasks) {
    if (!running.some(({ Id }) => Id === task)) problems.push(`${task} runs, and Docker does not know it`);
  }
  return problems;
}
