/** SQL of alerts: a row stands while an episode goes on, so that its user is told once, by whichever monitor saw it first. */
import { z } from 'zod';
import type { Queries } from '../queries.ts';

const alertRow = z.object({ containerId: z.string(), kind: z.string(), openedAt: z.date() });

/** An episode that goes on. */
export type AlertRow = z.output<typeof alertRow>;

/** All that go on. */
export function openAlerts(db: Queries): Promise<AlertRow[]> {
  return db.many(alertRow, `select container_id as "containerId", kind, opened_at as "openedAt" from container_alerts`);
}

/** Whether this began it: false when it goes on already, or the container is gone. */
export async function openAlert(db: Queries, containerId: string, kind: string): Promise<boolean> {
  const added = await db.run(
    `insert into container_alerts (container_id, kind) select id, $2 from containers where id = $1
     on conflict do nothing`,
    [containerId, kind],
  );
  return added === 1;
}

/** It is over. */
export async function closeAlert(db: Queries, containerId: string, kind: string): Promise<void> {
  await db.run('delete from container_alerts where container_id = $1 and kind = $2', [containerId, kind]);
}
