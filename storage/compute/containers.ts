/** SQL of containers. */
import { z } from 'zod';
import { instanceTypeSchema, pullPolicySchema, statusSchema } from '../../proto/compute/fields.ts';
import { healthStateSchema } from '../../proto/compute/health.ts';
import { type RestartPolicy, restartPolicySchema, STOP_GRACE_SECONDS } from '../../proto/compute/workload.ts';
import { DEFAULT_USER_LIMITS } from '../../proto/user-limits.ts';
import { isConstraint, type Queries, type Tx } from '../db.ts';
import { columnsOf, oneValue, orUndefined } from '../rows.ts';
import { PORTS, portSchema } from './ingress.ts';

/** What a user wants of a container. */
const desiredSchema = z.enum(['running', 'stopped', 'deleted']);

/** The private network of its user that a container is in. */
const membershipSchema = z.object({
  name: z.string(),
  /** By which the other members find it; null: they do not. */
  alias: z.string().nullable(),
  /** Its address follows from it. */
  place: z.number(),
});
export type NetworkMembership = Readonly<z.output<typeof membershipSchema>>;

/** An image that a container may get or had. In the table '' is the platform's own. Null: that; undefined: none. */
const otherImage = z
  .string()
  .nullable()
  .transform((image) => (image === null ? undefined : image || null));

/** Reads `COLUMNS`. */
export const containerRow = z.object({
  id: z.string(),
  userId: z.string(),
  name: z.string(),
  instanceType: instanceTypeSchema,
  memoryMb: z.number(),
  storageGb: z.number(),
  image: z.string().nullable(),
  pullPolicy: pullPolicySchema,
  mountPaths: z.array(z.string()),
  sshEnabled: z.boolean(),
  httpsEnabled: z.boolean(),
  desired: desiredSchema,
  status: statusSchema,
  statusReason: z.string().nullable(),
  statusSince: z.date(),
  address: z.string().nullable(),
  /** Where the outside reaches it. Null: at `address`; empty: nowhere (yet). */
  externalAddress: z.string().nullable(),
  createdAt: z.date(),
  /** It must be stopped once before it is running again. */
  restart: z.boolean(),
  /** Its user is to hear when it runs. */
  announce: z.boolean(),
  /** Rises with every change of who may log in. */
  keysRevision: z.number(),
  /** The revision the container itself was told last. */
  keysApplied: z.number(),
  /** Mount paths that hold data. */
  dataPaths: z.array(z.string()),
  /** How often its mount paths were changed, and when they were last set so that it restarted. */
  mountChanges: z.number(),
  mountsSetAt: z.date().nullable(),
  /** Its last start, and how its last run ended, as the engine said. Null: not known. */
  startedAt: z.date().nullable(),
  endedAt: z.date().nullable(),
  exitCode: z.number().nullable(),
  /** How often it was started again after a crash, since its user started it. */
  restarts: z.number(),
  /** Seconds between SIGTERM and SIGKILL. */
  stopGrace: z.number(),
  /** When it is started again after its workload ended by itself. */
  restartPolicy: restartPolicySchema,
  /** The image that it gets once that is pulled; undefined: it keeps its image. */
  nextImage: otherImage,
  /** Null: nothing is looked at. */
  healthState: healthStateSchema.nullable(),
  /** Since when its first good answer is waited for. Null: it did not run since. */
  healthSince: z.date().nullable(),
  healthReason: z.string().nullable(),
  /** The image before a change that is not proven yet; undefined: there is no way back. */
  formerImage: otherImage,
  /** Why the last change was given up. */
  givenUp: z.string().nullable(),
  /** When its time is over; null: never. */
  expiresAt: z.date().nullable(),
  /** The readable name at which it is reached beside its id; null: none. */
  addressName: z.string().nullable(),
  /** Networks that it may reach, none of them: nothing; null: all that containers may. */
  egress: z.array(z.string()).readonly().nullable(),
  /** Its next image begins beside it although it has mount paths. */
  overlap: z.boolean(),
  /** Since when the container whose place it took runs on beside it; null: there is none. */
  predecessorSince: z.date().nullable(),
  /** Another may have its place on the engine, of which nothing is written yet. */
  isPromoting: z.boolean(),
  /** Its release command, if it has one, is to run before its next start. */
  releaseDue: z.boolean(),
  /** The release command was run in the image that waits, and went well. */
  nextReleased: z.boolean(),
  /** Undefined: in none. */
  network: orUndefined(membershipSchema),
  sshKeyIds: z.array(z.number()),
  /** Its ingress rules, by external port. */
  ports: z.array(portSchema),
});

/** A container as stored. */
export type ContainerRow = z.output<typeof containerRow>;
export type Desired = z.output<typeof desiredSchema>;

/** The columns that a private network is said in, as one value. */
export const NETWORK = `case when network_place is not null then
  json_build_object('name', network, 'alias', network_alias, 'place', network_place) end`;

/** What of `containers` makes a row. */
export const COLUMNS = columnsOf(containerRow, {
  network: NETWORK,
  addressName: '(select a.name from address_names a where a.container_id = containers.id)',
  sshKeyIds: 'array(select key_id from container_keys where container_id = containers.id order by key_id)',
  ports: PORTS,
});

/**
 * Changes a container by `set`, whose parameters are `values` from $2 on, where `and` holds, too. Returns the row;
 * undefined when nothing was changed: also when it is being deleted.
 */
export function updateContainer(
  db: Queries,
  id: string,
  set: string,
  values: readonly unknown[] = [],
  and = 'true',
): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set ${set} where id = $1 and desired <> 'deleted' and ${and} returning ${COLUMNS}`,
    [id, ...values],
  );
}

/** No other image waits. */
export const NOTHING_WAITS = 'next_image = null, next_settings = null, next_released = false';

/** It is started anew: its health is not known yet. */
export const UNPROVEN = `health_state = case when health_state is not null then 'starting' end,
  health_since = null, health_reason = null`;

/** What another may have begun that has its place is ended like a predecessor: what it is next is made anew. */
export const PROMOTES_NO_MORE = `is_promoting = false,
  predecessor_since = case when is_promoting then coalesce(predecessor_since, now()) else predecessor_since end`;

/** One container, also while it is being deleted; undefined when there is none. */
export function containerById(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return db.one(containerRow, `select ${COLUMNS} from containers where id = $1`, [id]);
}

/** Who owns a container; undefined when there is none, or it is being deleted. */
export function containerOwner(db: Queries, id: string): Promise<string | undefined> {
  return oneValue(db, z.string(), `select user_id from known_containers where id = $1 and desired <> 'deleted'`, [id]);
}

/** The user's containers without those being deleted, oldest first. */
export function containersOfUser(db: Queries, userId: string): Promise<ContainerRow[]> {
  return db.many(
    containerRow,
    `select ${COLUMNS} from containers where user_id = $1 and desired <> 'deleted' order by created_at, id`,
    [userId],
  );
}

/** With the username of its owner; empty when the user is gone. */
export type OwnedContainerRow = ContainerRow & { readonly owner: string };

/** All containers of the platform without those being deleted, oldest first. */
export async function allContainers(db: Queries): Promise<OwnedContainerRow[]> {
  const owners = z.object({ id: z.string(), username: z.string() });
  const [rows, users] = await Promise.all([
    db.many(containerRow, `select ${COLUMNS} from containers where desired <> 'deleted' order by created_at, id`),
    db.many(owners, 'select id, username from known_users where id in (select user_id from containers)'),
  ]);
  const names = new Map(users.map(({ id, username }) => [id, username]));
  return rows.map((row) => ({ ...row, owner: names.get(row.userId) ?? '' }));
}

/** What a new container needs. */
type NewContainer = Pick<
  ContainerRow,
  | 'id'
  | 'userId'
  | 'name'
  | 'instanceType'
  | 'memoryMb'
  | 'storageGb'
  | 'image'
  | 'pullPolicy'
  | 'mountPaths'
  | 'sshEnabled'
> & {
  readonly stopGrace?: number | undefined;
  readonly restartPolicy?: RestartPolicy | undefined;
  readonly expiresAt?: Date | undefined;
  readonly egress?: readonly string[] | null;
  readonly overlap?: boolean;
  readonly most?: number; // How many its user may have; default: as all.
};

/** How many containers a user has, those that are being deleted included. */
export async function countContainers(db: Queries, userId: string): Promise<number> {
  return (await oneValue(db, z.number(), 'select count(*) from containers where user_id = $1', [userId])) ?? 0;
}

/** Adds a container in a free slot of its user, pending; undefined when the user has `most` or more. */
export async function insertContainer(tx: Tx, container: NewContainer): Promise<ContainerRow | undefined> {
  try {
    return await tx.one(
      containerRow,
      `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, image, pull_policy,
         mount_paths, ssh_enabled, stop_grace, restart_policy, expires_at, egress, overlap, desired, status, announce)
       select $1, $2, slot, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 'running', 'pending', true
       from generate_series(1, $16::int) as slot
       where not exists (select from containers c where c.user_id = $2 and c.slot = slot.slot)
         and (select count(*) from containers c where c.user_id = $2 and c.slot is not null) < $16 limit 1
       returning ${COLUMNS}`,
      [
        container.id,
        container.userId,
        container.name,
        container.instanceType,
        container.memoryMb,
        container.storageGb,
        container.image,
        container.pullPolicy,
        container.mountPaths,
        container.sshEnabled,
        container.stopGrace ?? STOP_GRACE_SECONDS,
        container.restartPolicy ?? 'always',
        container.expiresAt ?? null,
        container.egress ?? null,
        container.overlap ?? false,
        container.most ?? DEFAULT_USER_LIMITS.containers,
      ],
    );
  } catch (error) {
    // Two creates took one slot at once. The transaction is lost; the user's actor makes this rare.
    if (isConstraint(error, 'containers_slot_key')) return undefined;
    throw error;
  }
}

/**
 * Sets what the user wants and the status that follows from it; with `discard`, it may begin without its data. Returns
 * the row, or undefined when it is gone.
 */
export function setDesired(
  db: Queries,
  id: string,
  desired: Desired,
  status: ContainerRow['status'],
  { discard = false }: { readonly discard?: boolean } = {},
): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set desired = $2, data_paths = case when $4 then '{}' else data_paths end, status = $3,
      status_reason = null, status_since = now(),
       slot = case when $2 = 'deleted' then null else slot end,
       address = case when $3 = 'running' then address end,
       external_address = case when $3 = 'running' then external_address end,
       restart = $2 = 'running', announce = $2 = 'running', given_up = null, ${UNPROVEN}, ${PROMOTES_NO_MORE},
       restarts = case when $2 = 'running' then 0 else restarts end
     where id = $1 and (desired <> 'deleted' or $2 = 'deleted') returning ${COLUMNS}`,
    [id, desired, status, discard],
  );
}

/**
 * Sets what the engine made of it. Returns the row; undefined when it is gone, being deleted, or has another status
 * than `from`: then an earlier write had reached the database although nobody was told.
 */
export function setStatus(
  db: Queries,
  id: string,
  change: {
    from: ContainerRow['status'];
    status: ContainerRow['status'];
    reason: string | null;
    address: string | null;
    externalAddress: string | null;
    /** The user was told of the start. */
    announced: boolean;
    /** The keys that the container knows. */
    keysApplied: number;
    /** When the engine started it; null: as before. */
    startedAt?: Date | null;
    /** It is started again after a crash. */
    restarted?: boolean;
    /** It is not to run any more. */
    isOver?: boolean | undefined;
  },
): Promise<ContainerRow | undefined> {
  return updateContainer(
    db,
    id,
    `status = $2, status_reason = $3, address = $4,
       status_since = case when status = $2 then status_since else now() end,
       data_paths = case when $2 = 'running' and status <> 'running' then mount_paths else data_paths end,
       announce = announce and not $5, keys_applied = greatest(keys_applied, $7), external_address = $8,
       started_at = coalesce($9, started_at), restarts = restarts + case when $10 then 1 else 0 end,
       desired = case when $11 then 'stopped' else desired end,
       -- After a crash of one that was not healthy yet, its time goes on.
       health_since = case when $2 = status then health_since
         when $2 = 'running' then case when health_state is not null then coalesce(health_since, now()) end
         when health_state = 'starting' then health_since end,
       health_reason = case when $2 = status then health_reason end,
       health_state = case when $2 = status or health_state is null then health_state else 'starting' end`,
    [
      change.status,
      change.reason,
      change.address,
      change.announced,
      change.from,
      change.keysApplied,
      change.externalAddress,
      change.startedAt ?? null,
      change.restarted ?? false,
      change.isOver ?? false,
    ],
    'status = $6',
  );
}

/** When a container was last started, and how its last run ended. */
export type ContainerRun = Pick<ContainerRow, 'startedAt' | 'endedAt' | 'exitCode'>;

/** Notes what the engine says of its last run. As `clearRestart` otherwise. */
export function noteRun(db: Queries, id: string, run: ContainerRun): Promise<ContainerRow | undefined> {
  const { startedAt, endedAt, exitCode } = run;
  return updateContainer(db, id, 'started_at = $2, ended_at = $3, exit_code = $4', [startedAt, endedAt, exitCode]);
}

/**
 * The container was stopped as its restart asks for. Returns the row, or undefined when it is gone or being deleted.
 */
export function clearRestart(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return updateContainer(db, id, 'restart = false');
}

/** Sets the mounts; with `restart`, it goes back to pending and is to be stopped once. Otherwise as `clearRestart`. */
export function setMountPaths(
  db: Queries,
  id: string,
  mountPaths: readonly string[],
  restart: boolean,
): Promise<ContainerRow | undefined> {
  return updateContainer(
    db,
    id,
    `mount_paths = $2, restart = restart or $3,
       mount_changes = mount_changes + case when mount_paths @> $2 and mount_paths <@ $2 then 0 else 1 end,
       mounts_set_at = case when $3 then now() else mounts_set_at end,
       health_state = case when $3 and health_state is not null then 'starting' else health_state end,
       health_since = case when $3 then null else health_since end,
       health_reason = case when $3 then null else health_reason end,
       status = case when $3 then 'pending' else status end,
       status_reason = case when $3 then null else status_reason end,
       status_since = case when $3 then now() else status_since end,
       address = case when $3 then null else address end,
       external_address = case when $3 then null else external_address end`,
    [mountPaths, restart],
  );
}

/** It goes back to pending, and is to be stopped once. As `clearRestart` otherwise. */
export function setRestart(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return updateContainer(
    db,
    id,
    `restart = true, status = 'pending', status_reason = null, status_since = now(), address = null,
       external_address = null, given_up = null, ${UNPROVEN}`,
  );
}

/** Sets whether the user's keys are let in. As `clearRestart` otherwise. */
export function setSshEnabled(db: Queries, id: string, enabled: boolean): Promise<ContainerRow | undefined> {
  const set = 'ssh_enabled = $2, keys_revision = keys_revision + case when ssh_enabled = $2 then 0 else 1 end';
  return updateContainer(db, id, set, [enabled]);
}

/** Notes that the container itself knows the keys of a revision. */
export async function noteKeysApplied(db: Queries, id: string, revision: number): Promise<void> {
  await db.run('update containers set keys_applied = greatest(keys_applied, $2) where id = $1', [id, revision]);
}
