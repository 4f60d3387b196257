/** SQL of what is changed about a container after its creation: its name, its sizes, its SSH keys, its image. */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import { manyValues } from '../rows.ts';
import { type ContainerRow, NOTHING_WAITS, PROMOTES_NO_MORE, UNPROVEN, updateContainer } from './containers.ts';

/** What a container may use. */
export type Sizes = Pick<ContainerRow, 'memoryMb' | 'instanceType' | 'storageGb'>;

/** Sets its sizes. Returns the row; undefined when it is gone or being deleted. */
export function setSizes(tx: Tx, id: string, sizes: Sizes): Promise<ContainerRow | undefined> {
  const values = [sizes.memoryMb, sizes.instanceType, sizes.storageGb];
  return updateContainer(tx, id, 'memory_mb = $2, instance_type = $3, storage_gb = $4', values);
}

/**
 * Lets these keys of its user into a container, and no others. Resolves with the fingerprints of those that are not let
 * in any more, or with the id of a key that the user does not have.
 */
export async function replaceKeys(
  tx: Tx,
  { id, userId }: Pick<ContainerRow, 'id' | 'userId'>,
  keyIds: readonly number[],
): Promise<{ readonly removed: readonly string[] } | { readonly missing: number }> {
  const owned = await manyValues(
    tx,
    z.number(),
    // Locked: another transaction may be about to delete one.
    'select id from ssh_keys where user_id = $1 and id = any($2::int[]) for key share',
    [userId, keyIds],
  );
  const missing = keyIds.find((one) => !owned.includes(one));
  if (missing !== undefined) return { missing };
  const removed = await manyValues(
    tx,
    z.string(),
    `with removed as (
       delete from container_keys where container_id = $1 and key_id <> all($2::int[]) returning key_id
     ) select fingerprint from ssh_keys join removed on key_id = id order by id`,
    [id, keyIds],
  );
  await tx.run(
    'insert into container_keys (container_id, key_id) select $1, unnest($2::int[]) on conflict do nothing',
    [id, keyIds],
  );
  await tx.run('update containers set keys_revision = keys_revision + 1 where id = $1', [id]);
  return { removed };
}

/** Sets its image now, and drops one that waits. As `setSizes` otherwise. */
export function setImage(tx: Tx, id: string, image: string | null): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, `image = $2, release_due = true, ${NOTHING_WAITS}`, [image]);
}

/** Sets how it stops, and what follows when it ends. As `setSizes` otherwise. */
export function setEnding(
  tx: Tx,
  id: string,
  { stopGrace, restartPolicy }: Pick<ContainerRow, 'stopGrace' | 'restartPolicy'>,
): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'stop_grace = $2, restart_policy = $3', [stopGrace, restartPolicy]);
}

/** Sets when its time is over; null: never. As `setSizes` otherwise. */
export function setExpiry(tx: Tx, id: string, expiresAt: Date | null): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'expires_at = $2', [expiresAt]);
}

/** Sets what it may reach, as its row has it. As `setSizes` otherwise. */
export function setEgress(tx: Tx, id: string, egress: ContainerRow['egress']): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'egress = $2', [egress]);
}

/** Sets whether its next image begins beside it although it has mount paths. As `setSizes` otherwise. */
export function setOverlap(tx: Tx, id: string, overlap: boolean): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'overlap = $2', [overlap]);
}

/** Counts from now on how long it has been stopped. As `setSizes` otherwise. */
export function countStopAnew(tx: Tx, id: string): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'status_since = now()', [], `desired = 'stopped'`);
}

/** Gives it another name. As `setSizes` otherwise. */
export function setName(tx: Tx, id: string, name: string): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'name = $2', [name]);
}

/** Sets the pull policy. As `setSizes` otherwise. */
export function setPullPolicy(
  tx: Tx,
  id: string,
  policy: ContainerRow['pullPolicy'],
): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'pull_policy = $2', [policy]);
}

/** What a running container becomes once an image is pulled. */
interface NextImage {
  /** Null: the platform's own. */
  readonly image: string | null;
  /** Sealed (`sealedSettings`); null: as they are. */
  readonly settings: Buffer | null;
  /** What its user reads until then. */
  readonly reason: string;
}

/** Writes down the image that it gets once that is pulled. As `setSizes` otherwise. */
export function setNextImage(tx: Tx, id: string, next: NextImage): Promise<ContainerRow | undefined> {
  return updateContainer(
    tx,
    id,
    `next_image = $2, next_settings = $3, next_released = false,
       status_reason = case when status = 'running' then $4 else status_reason end`,
    [next.image ?? '', next.settings, next.reason],
  );
}

/** It keeps the image it has. As `setSizes` otherwise; undefined, too, when another image waits than `image`. */
export function dropNextImage(
  db: Queries,
  id: string,
  image: string | null,
  reason: string | null,
): Promise<ContainerRow | undefined> {
  return updateContainer(
    db,
    id,
    `${NOTHING_WAITS},
       status_reason = case when status = 'running' then $3 else status_reason end`,
    [image ?? '', reason],
    'next_image = $2',
  );
}

/**
 * The image that waited is its image from now on, with the settings that waited. One that is to run goes back to
 * pending, and is to be stopped once. As `dropNextImage` otherwise.
 */
export async function takeNextImage(tx: Tx, id: string, image: string | null): Promise<ContainerRow | undefined> {
  await takeNextSettings(tx, id, image);
  const runs = `desired = 'running' and status <> 'failed'`;
  return updateContainer(
    tx,
    id,
    `image = nullif(next_image, ''), release_due = not next_released, ${NOTHING_WAITS},
       restart = restart or (${runs}),
       status = case when ${runs} then 'pending' else status end,
       status_reason = case when ${runs} then null else status_reason end,
       status_since = case when ${runs} then now() else status_since end,
       address = case when ${runs} then null else address end,
       external_address = case when ${runs} then null else external_address end, ${UNPROVEN}, ${PROMOTES_NO_MORE}`,
    [image ?? ''],
    'next_image = $2',
  );
}

/**
 * A container of the image that waits is about to take its place. As `dropNextImage` otherwise; undefined, too, when it
 * is not to run any more.
 */
export function beginPromotion(tx: Tx, id: string, image: string | null): Promise<ContainerRow | undefined> {
  const isWanted = `next_image = $2 and desired = 'running' and status = 'running'`;
  return updateContainer(tx, id, 'is_promoting = true', [image ?? ''], isWanted);
}

/** Where a container is that took the place of another, and what it was told. */
export interface Promotion {
  readonly address: string | null;
  readonly externalAddress: string | null;
  readonly startedAt: Date | null;
  readonly keysRevision: number;
  /** In its private network; null: it is in none. */
  readonly place: number | null;
  /** It has a check of its health, and was well. */
  readonly isChecked: boolean;
}

/**
 * A container of the image that waited took its place, with the settings that waited: it goes on running, elsewhere.
 * The one before runs on beside it. As `dropNextImage` otherwise; undefined, too, when it is not to run any more.
 */
export async function promoteNextImage(
  tx: Tx,
  id: string,
  image: string | null,
  { address, externalAddress, startedAt, keysRevision, place, isChecked }: Promotion,
): Promise<ContainerRow | undefined> {
  await takeNextSettings(tx, id, image);
  return updateContainer(
    tx,
    id,
    `image = nullif(next_image, ''), release_due = false, ${NOTHING_WAITS}, former_image = null,
       former_settings = null, given_up = null, status_reason = null, status_since = now(), predecessor_since = now(),
       address = $3, external_address = $4, started_at = $5, ended_at = null, exit_code = null,
       keys_applied = greatest(keys_applied, $6), health_state = case when $7 then 'healthy' end,
       health_since = case when $7 then now() end, health_reason = null, is_promoting = false,
       network_former_place = network_place, network_place = $8`,
    [image ?? '', address, externalAddress, startedAt, keysRevision, isChecked, place],
    `next_image = $2 and desired = 'running' and status = 'running' and (network is null) = ($8::int is null)`,
  );
}

/**
 * It runs something else than its row says, and is to be made anew. As `setSizes` otherwise; undefined, too, when it is
 * not to run.
 */
export function makeAnew(tx: Tx, id: string): Promise<ContainerRow | undefined> {
  return updateContainer(
    tx,
    id,
    `restart = true, status = 'pending', status_reason = null, status_since = now(), address = null,
       external_address = null, ${UNPROVEN}, ${PROMOTES_NO_MORE}`,
    [],
    `desired = 'running' and status <> 'failed'`,
  );
}

/** The container whose place it took is gone. As `setSizes` otherwise. */
export function forgetPredecessor(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return updateContainer(db, id, 'predecessor_since = null');
}

/** The settings that wait with an image are its settings. */
async function takeNextSettings(tx: Tx, id: string, image: string | null): Promise<void> {
  await tx.run(
    `insert into container_settings (container_id, sealed)
     select id, next_settings from containers where id = $1 and next_image = $2 and next_settings is not null
     on conflict (container_id) do update set sealed = excluded.sealed, changed_at = now()`,
    [id, image ?? ''],
  );
}
