/**
 * SQL of the monitor: what it knows of containers besides their numbers, and alerts. An alert's row stands while its
 * episode lasts, so that only the first monitor that sees it tells its user.
 */
import { z } from 'zod';
import type { Queries } from '../queries.ts';
import { columnsOf, oneValue } from '../rows.ts';

const factsRow = z.object({
  id: z.string(),
  userId: z.string(),
  name: z.string(),
  status: z.string(),
  storageGb: z.number(),
});

/** A container as promised to its user. */
export type ContainerFacts = z.output<typeof factsRow>;

/** All containers without those being deleted. */
export function containerFacts(db: Queries): Promise<ContainerFacts[]> {
  return db.many(
    factsRow,
    `select ${columnsOf(factsRow)} from known_containers where desired <> 'deleted' order by created_at, id`,
  );
}

const alertRow = z.object({ containerId: z.string(), kind: z.string(), openedAt: z.date() });

/** An episode that goes on. */
type AlertRow = z.output<typeof alertRow>;

/** All that go on. */
export function openAlerts(db: Queries): Promise<AlertRow[]> {
  return db.many(alertRow, `select ${columnsOf(alertRow)} from container_alerts`);
}

/** Whether this began it: false when it goes on already, or the container is gone. */
export async function openAlert(db: Queries, containerId: string, kind: string): Promise<boolean> {
  const added = await db.run(
    `insert into container_alerts (container_id, kind) select id, $2 from known_containers where id = $1
     on conflict do nothing`,
    [containerId, kind],
  );
  return added === 1;
}

/** It is over. */
export async function closeAlert(db: Queries, containerId: string, kind: string): Promise<void> {
  await db.run('delete from container_alerts where container_id = $1 and kind = $2', [containerId, kind]);
}

const diskAlertRow = z.object({ node: z.string(), path: z.string(), openedAt: z.date() });

/** A machine's file system that is nearly full. */
type DiskAlertRow = z.output<typeof diskAlertRow>;

/** All that are. */
export function openDiskAlerts(db: Queries): Promise<DiskAlertRow[]> {
  return db.many(diskAlertRow, `select ${columnsOf(diskAlertRow)} from disk_alerts`);
}

/** Whether this began it: false when it goes on already. */
export async function openDiskAlert(db: Queries, node: string, path: string): Promise<boolean> {
  const open = 'insert into disk_alerts (node, path) values ($1, $2) on conflict do nothing';
  return (await db.run(open, [node, path])) === 1;
}

/** It is over. */
export async function closeDiskAlert(db: Queries, node: string, path: string): Promise<void> {
  await db.run('delete from disk_alerts where node = $1 and path = $2', [node, path]);
}

/** Who is told of machines: the id of the user with this name, if there is one yet. */
export function administratorId(db: Queries, username: string): Promise<string | undefined> {
  return oneValue(db, z.string(), 'select id from known_users where username = $1', [username]);
}
