/** SQL of containers. */
import { z } from 'zod';
import { instanceTypeSchema, pullPolicySchema, statusSchema } from '../../proto/compute/fields.ts';
import { healthStateSchema } from '../../proto/compute/health.ts';
import { type RestartPolicy, restartPolicySchema, STOP_GRACE_SECONDS } from '../../proto/compute/workload.ts';
import { isConstraint, type Queries, type Tx } from '../db.ts';
import { membershipIn } from './network-membership.ts';

/** What a user wants of a container. */
export const desiredSchema = z.enum(['running', 'stopped', 'deleted']);

const containerColumns = z.object({
  id: z.string(),
  user_id: z.string(),
  name: z.string(),
  instance_type: instanceTypeSchema,
  memory_mb: z.number(),
  storage_gb: z.number(),
  image: z.string().nullable(),
  pull_policy: pullPolicySchema,
  mount_paths: z.array(z.string()),
  ssh_enabled: z.boolean(),
  https_enabled: z.boolean(),
  desired: desiredSchema,
  status: statusSchema,
  status_reason: z.string().nullable(),
  status_since: z.date(),
  address: z.string().nullable(),
  external_address: z.string().nullable(),
  created_at: z.date(),
  restart: z.boolean(),
  announce: z.boolean(),
  keys_revision: z.number(),
  keys_applied: z.number(),
  data_paths: z.array(z.string()),
  mount_changes: z.number(),
  mounts_set_at: z.date().nullable(),
  started_at: z.date().nullable(),
  ended_at: z.date().nullable(),
  exit_code: z.number().nullable(),
  restarts: z.number(),
  stop_grace: z.number(),
  restart_policy: restartPolicySchema,
  next_image: z.string().nullable(),
  health_state: healthStateSchema.nullable(),
  health_since: z.date().nullable(),
  health_reason: z.string().nullable(),
  former_image: z.string().nullable(),
  given_up: z.string().nullable(),
  network: z.string().nullable(),
  network_alias: z.string().nullable(),
  network_place: z.number().nullable(),
  ssh_key_ids: z.array(z.number()),
  ports: z.array(z.object({ port: z.number(), target_port: z.number(), tls: z.literal('platform').optional() })),
});
/** Reads `COLUMNS`. */
export const containerRow = containerColumns.transform((row) => ({
  id: row.id,
  userId: row.user_id,
  name: row.name,
  instanceType: row.instance_type,
  memoryMb: row.memory_mb,
  storageGb: row.storage_gb,
  image: row.image,
  pullPolicy: row.pull_policy,
  mountPaths: row.mount_paths,
  sshEnabled: row.ssh_enabled,
  httpsEnabled: row.https_enabled,
  desired: row.desired,
  status: row.status,
  statusReason: row.status_reason,
  statusSince: row.status_since,
  address: row.address,
  /** Where the outside reaches it. Null: at `address`; empty: nowhere (yet). */
  externalAddress: row.external_address,
  createdAt: row.created_at,
  /** It must be stopped once before it is running again. */
  restart: row.restart,
  /** Its user is to hear when it runs. */
  announce: row.announce,
  /** Rises with every change of who may log in. */
  keysRevision: row.keys_revision,
  /** The revision the container itself was told last. */
  keysApplied: row.keys_applied,
  /** Mount paths that hold data. */
  dataPaths: row.data_paths,
  /** How often its mount paths were changed, and when they were last set so that it restarted. */
  mountChanges: row.mount_changes,
  mountsSetAt: row.mounts_set_at,
  /** Its last start, and how its last run ended, as the engine said. Null: not known. */
  startedAt: row.started_at,
  endedAt: row.ended_at,
  exitCode: row.exit_code,
  /** How often it was started again after a crash, since its user started it. */
  restarts: row.restarts,
  /** Seconds between SIGTERM and SIGKILL. */
  stopGrace: row.stop_grace,
  /** When it is started again after its workload ended by itself. */
  restartPolicy: row.restart_policy,
  /** The image that it gets once that is pulled. Null: the platform's own; undefined: it keeps its image. */
  nextImage: row.next_image === null ? undefined : row.next_image || null,
  /** Null: nothing is looked at. */
  healthState: row.health_state,
  /** Since when its first good answer is waited for. Null: it did not run since. */
  healthSince: row.health_since,
  healthReason: row.health_reason,
  /** The image before a change that is not proven yet. As `nextImage`; undefined: there is no way back. */
  formerImage: row.former_image === null ? undefined : row.former_image || null,
  /** Why the last change was given up. */
  givenUp: row.given_up,
  /** The private network of its user that it is in. */
  network: membershipIn(row),
  sshKeyIds: row.ssh_key_ids,
  /** Its ingress rules, by external port. */
  ports: row.ports,
}));

/** A container as stored. */
export type ContainerRow = z.output<typeof containerRow>;
export type Desired = z.output<typeof desiredSchema>;

/** Columns that are read from other tables. */
const JOINED: Readonly<Record<string, string>> = {
  ssh_key_ids: 'array(select key_id from container_keys where container_id = containers.id order by key_id)',
  ports: `coalesce((select json_agg(json_strip_nulls(json_build_object('port', port, 'target_port', target_port,
      'tls', nullif(tls, 'container'))) order by port)
    from ingress_rules where container_id = containers.id), '[]')`,
};
/** What of `containers` makes a row. */
export const COLUMNS = Object.keys(containerColumns.shape)
  .map((name) => (name in JOINED ? `${JOINED[name]} as ${name}` : name))
  .join(', ');

/** It is started anew: its health is not known yet. */
export const UNPROVEN = `health_state = case when health_state is not null then 'starting' end,
  health_since = null, health_reason = null`;

const ownerRow = z.object({ user_id: z.string() });

/** One container, also while it is being deleted; undefined when there is none. */
export function containerById(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return db.one(containerRow, `select ${COLUMNS} from containers where id = $1`, [id]);
}

/** Who owns a container; undefined when there is none, or it is being deleted. */
export async function containerOwner(db: Queries, id: string): Promise<string | undefined> {
  const row = await db.one(ownerRow, `select user_id from known_containers where id = $1 and desired <> 'deleted'`, [
    id,
  ]);
  return row?.user_id;
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
};

/** How many containers a user has, those that are being deleted included. */
export async function countContainers(db: Queries, userId: string): Promise<number> {
  const found = z.object({ count: z.number() });
  return (await db.one(found, 'select count(*) from containers where user_id = $1', [userId]))?.count ?? 0;
}

/** Adds a container in a free slot of its user, pending; undefined when no slot is free. */
export async function insertContainer(tx: Tx, container: NewContainer): Promise<ContainerRow | undefined> {
  try {
    return await tx.one(
      containerRow,
      `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, image, pull_policy,
        mount_paths,
         ssh_enabled, stop_grace, restart_policy, desired, status, announce)
       select $1, $2, slot, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'running', 'pending', true
       from generate_series(1, 3) as slot
       where not exists (select from containers c where c.user_id = $2 and c.slot = slot.slot) limit 1
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
       restart = $2 = 'running', announce = $2 = 'running', given_up = null, ${UNPROVEN},
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
  return db.one(
    containerRow,
    `update containers set status = $2, status_reason = $3, address = $4,
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
       health_state = case when $2 = status or health_state is null then health_state else 'starting' end
     where id = $1 and desired <> 'deleted' and status = $6 returning ${COLUMNS}`,
    [
      id,
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
  );
}

/** When a container was last started, and how its last run ended. */
export type ContainerRun = Pick<ContainerRow, 'startedAt' | 'endedAt' | 'exitCode'>;

/** Notes what the engine says of its last run. As `clearRestart` otherwise. */
export function noteRun(db: Queries, id: string, run: ContainerRun): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set started_at = $2, ended_at = $3, exit_code = $4
     where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
    [id, run.startedAt, run.endedAt, run.exitCode],
  );
}

/**
 * The container was stopped as its restart asks for. Returns the row, or undefined when it is gone or being deleted.
 */
export function clearRestart(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set restart = false where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
    [id],
  );
}

/** Sets the mounts; with `restart`, it goes back to pending and is to be stopped once. Otherwise as `clearRestart`. */
export function setMountPaths(
  db: Queries,
  id: string,
  mountPaths: readonly string[],
  restart: boolean,
): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set mount_paths = $2, restart = restart or $3,
       mount_changes = mount_changes + case when mount_paths @> $2 and mount_paths <@ $2 then 0 else 1 end,
       mounts_set_at = case when $3 then now() else mounts_set_at end,
       health_state = case when $3 and health_state is not null then 'starting' else health_state end,
       health_since = case when $3 then null else health_since end,
       health_reason = case when $3 then null else health_reason end,
       status = case when $3 then 'pending' else status end,
       status_reason = case when $3 then null else status_reason end,
       status_since = case when $3 then now() else status_since end,
       address = case when $3 then null else address end,
       external_address = case when $3 then null else external_address end
     where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
    [id, mountPaths, restart],
  );
}

/** It goes back to pending, and is to be stopped once. As `clearRestart` otherwise. */
export function setRestart(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set restart = true, status = 'pending', status_reason = null, status_since = now(),
       address = null, external_address = null, given_up = null, ${UNPROVEN}
     where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
    [id],
  );
}

/** Sets whether the user's keys are let in. As `clearRestart` otherwise. */
export function setSshEnabled(db: Queries, id: string, enabled: boolean): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set ssh_enabled = $2,
       keys_revision = keys_revision + case when ssh_enabled = $2 then 0 else 1 end
     where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
    [id, enabled],
  );
}

/** Notes that the container itself knows the keys of a revision. */
export async function noteKeysApplied(db: Queries, id: string, revision: number): Promise<void> {
  await db.run('update containers set keys_applied = greatest(keys_applied, $2) where id = $1', [id, revision]);
}
