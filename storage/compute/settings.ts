/** SQL of how workloads are run. All of it is sealed: commands hold secrets, too, when people are in a hurry. */
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import { healthSchema } from '../../proto/compute/health.ts';
import type { Queries, Tx } from '../db.ts';
import type { SealedPlace } from '../reseal.ts';
import { oneValue } from '../rows.ts';
import { open, seal } from '../seal.ts';

/** What the sealed settings of a container are bound to. */
const settingsContext = (containerId: string) => `container_settings/${containerId}/sealed`;

const variables = z.record(z.string(), z.string()).default({});
const words = z.array(z.string()).nullable().default(null);
/** Reads what is sealed. */
export const settingsSchema = z.object({
  env: variables,
  secrets: variables,
  command: words,
  entrypoint: words,
  workingDir: z.string().nullable().default(null),
  /** Runs once in a new image. */
  release: words,
  health: healthSchema.nullable().default(null),
});

/** How the workload of a container is run. Null: as its image says. */
export type ContainerSettings = z.output<typeof settingsSchema>;

/** Of a container for which nothing was set. */
export const NO_SETTINGS: ContainerSettings = settingsSchema.parse({});

/** The settings of a container; undefined when there were never any. Rejects with SealError. */
export function settingsOf(db: Queries, id: string, sealKey: KeyObject): Promise<ContainerSettings | undefined> {
  return sealedIn(db, 'select sealed from container_settings where container_id = $1', id, sealKey);
}

/** The settings that wait for another image of the container; undefined when there are none. As `settingsOf`. */
export function nextSettingsOf(db: Queries, id: string, sealKey: KeyObject): Promise<ContainerSettings | undefined> {
  const waiting = 'select next_settings from containers where id = $1 and next_settings is not null';
  return sealedIn(db, waiting, id, sealKey);
}

/** The settings that it has once no image is waited for any more. As `settingsOf`. */
export async function comingSettingsOf(db: Queries, id: string, sealKey: KeyObject): Promise<ContainerSettings> {
  return (await nextSettingsOf(db, id, sealKey)) ?? (await settingsOf(db, id, sealKey)) ?? NO_SETTINGS;
}

/** The settings of the way back; undefined when there were none. As `settingsOf`. */
export function formerSettingsOf(db: Queries, id: string, sealKey: KeyObject): Promise<ContainerSettings | undefined> {
  const former = 'select former_settings from containers where id = $1 and former_settings is not null';
  return sealedIn(db, former, id, sealKey);
}

/** Opens what `sealedSettings` sealed, as the statement finds it. */
async function sealedIn(
  db: Queries,
  text: string,
  containerId: string,
  sealKey: KeyObject,
): Promise<ContainerSettings | undefined> {
  const sealed = await oneValue(db, z.instanceof(Buffer), text, [containerId]);
  if (sealed === undefined) return undefined;
  return settingsSchema.parse(JSON.parse(open(sealKey, settingsContext(containerId), sealed).toString()));
}

/** Seals them for where they are kept. */
export function sealedSettings(containerId: string, settings: ContainerSettings, sealKey: KeyObject): Buffer {
  return seal(sealKey, settingsContext(containerId), Buffer.from(JSON.stringify(settings)));
}

/** Writes them. */
export async function putSettings(
  tx: Tx,
  containerId: string,
  settings: ContainerSettings,
  sealKey: KeyObject,
): Promise<void> {
  const sealed = sealedSettings(containerId, settings, sealKey);
  await tx.run(
    `insert into container_settings (container_id, sealed) values ($1, $2)
     on conflict (container_id) do update set sealed = $2, changed_at = now()`,
    [containerId, sealed],
  );
}

/** Where sealed values of containers stand: all of this room. */

/** The columns. */
export const COMPUTE_SEALED: readonly SealedPlace[] = [
  { table: 'container_settings', id: 'container_id', column: 'sealed', context: settingsContext },
  // The same context: what waits there becomes the other as it is.
  { table: 'containers', id: 'id', column: 'next_settings', context: settingsContext },
  { table: 'containers', id: 'id', column: 'former_settings', context: settingsContext },
];
