/** SQL of the health of containers, and of the way back from a change that did not lead to it. */
import type { KeyObject } from 'node:crypto';
import type { HealthState } from '../../proto/compute/health.ts';
import type { Queries, Tx } from '../db.ts';
import { COLUMNS, type ContainerRow, containerRow, NOTHING_WAITS, updateContainer } from './containers.ts';
import { formerSettingsOf, sealedSettings } from './settings.ts';

/**
 * Its health is looked for anew, or, unless `isChecked`, not at all. `runsOn`: the time for that begins now, and not
 * with the next start. Why a former change was given up is not of interest any more. Returns the row; undefined when it
 * is gone or being deleted.
 */
export function expectHealth(
  tx: Tx,
  id: string,
  { isChecked, runsOn }: { readonly isChecked: boolean; readonly runsOn: boolean },
): Promise<ContainerRow | undefined> {
  return updateContainer(
    tx,
    id,
    `health_state = case when $2 then 'starting' end, health_reason = null, given_up = null,
       health_since = case when $2 and $3 and status = 'running' then now() end`,
    [isChecked, runsOn],
  );
}

/**
 * Writes down what was found of the health of the start that is looked at since `since`. What is healthy needs no way
 * back. As `expectHealth` otherwise; undefined, too, when it was started again since.
 */
export function noteHealth(
  db: Queries,
  id: string,
  since: Date,
  { health, reason }: { readonly health: HealthState; readonly reason: string | null },
): Promise<ContainerRow | undefined> {
  return updateContainer(
    db,
    id,
    `health_state = $2, health_reason = $3,
       former_image = case when $2 = 'healthy' then null else former_image end,
       former_settings = case when $2 = 'healthy' then null else former_settings end`,
    [health, reason, since],
    `status = 'running' and health_state is not null and date_trunc('milliseconds', health_since) = $4`,
  );
}

/**
 * Keeps an image, null for the platform's own, and its settings as they are now, without secrets, for the way back;
 * undefined: keeps none. Rejects with SealError.
 */
export async function keepFormer(
  tx: Tx,
  id: string,
  image: string | null | undefined,
  sealKey: KeyObject,
): Promise<void> {
  await tx.run(
    `update containers set former_image = $3,
       former_settings = case when $2 then (select sealed from container_settings where container_id = id) end
     where id = $1`,
    [id, image !== undefined, image === null ? '' : (image ?? null)],
  );
  const former = await formerSettingsOf(tx, id, sealKey);
  if (former === undefined) return;
  // One goes back to the secrets of then: a value that is taken away meanwhile is kept nowhere.
  const sealed = sealedSettings(id, { ...former, secrets: {} }, sealKey);
  await tx.run('update containers set former_settings = $2 where id = $1', [id, sealed]);
}

/**
 * The image of the way back is its image again: it goes back to pending, and is to be stopped once. A change that waits
 * is dropped: its settings were made from those that are given up. `isChecked`: its settings of before have a check.
 * Undefined when there is no way back, or it is not to run.
 */
export function takeFormer(
  tx: Tx,
  id: string,
  { isChecked, reason }: { readonly isChecked: boolean; readonly reason: string },
): Promise<ContainerRow | undefined> {
  return tx.one(
    containerRow,
    `update containers set image = nullif(former_image, ''), former_image = null, former_settings = null,
       release_due = false, ${NOTHING_WAITS},
       health_state = case when $2 then 'starting' end, health_since = null, health_reason = null,
       restart = true, status = 'pending', status_reason = $3, given_up = $3, status_since = now(), address = null,
       external_address = null
     where id = $1 and desired = 'running' and former_image is not null returning ${COLUMNS}`,
    [id, isChecked, reason],
  );
}
