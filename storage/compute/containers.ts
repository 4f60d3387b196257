/** SQL of containers. */
import { z } from 'zod';
import { instanceTypeSchema, pullPolicySchema, statusSchema } from '../../proto/compute.ts';
import { isConstraint, type Queries, type Tx } from '../db.ts';

const desiredSchema = z.enum(['running', 'stopped', 'deleted']);

const containerRow = z
  .object({
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
    created_at: z.date(),
  })
  .transform((row) => ({
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
    createdAt: row.created_at,
  }));

/** A container as stored. */
export type ContainerRow = z.output<typeof containerRow>;
export type Desired = z.output<typeof desiredSchema>;

const COLUMNS = `id, user_id, name, instance_type, memory_mb, storage_gb, image, pull_policy, mount_paths, ssh_enabled,
  https_enabled, desired, status, status_reason, status_since, address, created_at`;

/** One container, also while it is being deleted; undefined when there is none. */
export function containerById(db: Queries, id: string): Promise<ContainerRow | undefined> {
  return db.one(containerRow, `select ${COLUMNS} from containers where id = $1`, [id]);
}

/** The user's containers without those being deleted, oldest first. */
export function containersOfUser(db: Queries, userId: string): Promise<ContainerRow[]> {
  return db.many(
    containerRow,
    `select ${COLUMNS} from containers where user_id = $1 and desired <> 'deleted' order by created_at, id`,
    [userId],
  );
}

const outlineRow = z
  .object({ id: z.string(), desired: desiredSchema, status: statusSchema, address: z.string().nullable() })
  .transform((row) => row);

/** What reconciliation needs to know of a container to see whether somebody should look. */
export type ContainerOutline = z.output<typeof outlineRow>;

/** All containers of the platform, in outline. */
export function containerOutlines(db: Queries): Promise<ContainerOutline[]> {
  return db.many(outlineRow, 'select id, desired, status, address from containers');
}

/** What a new container needs. */
export type NewContainer = Pick<
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
>;

/** Adds a container in a free slot of its user, pending; undefined when no slot is free. */
export async function insertContainer(tx: Tx, container: NewContainer): Promise<ContainerRow | undefined> {
  try {
    return await tx.one(
      containerRow,
      `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, image, pull_policy, mount_paths,
         ssh_enabled, desired, status)
       select $1, $2, slot, $3, $4, $5, $6, $7, $8, $9, $10, 'running', 'pending' from generate_series(1, 3) as slot
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
      ],
    );
  } catch (error) {
    // Two creates took one slot at once. The transaction is lost; the user's actor makes this rare.
    if (isConstraint(error, 'containers_slot_key')) return undefined;
    throw error;
  }
}

/** Sets what the user wants and the status that follows from it. Returns the row, or undefined when it is gone. */
export function setDesired(
  db: Queries,
  id: string,
  desired: Desired,
  status: ContainerRow['status'],
): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set desired = $2, status = $3, status_reason = null, status_since = now(),
       slot = case when $2 = 'deleted' then null else slot end,
       address = case when $3 = 'running' then address end
     where id = $1 and (desired <> 'deleted' or $2 = 'deleted') returning ${COLUMNS}`,
    [id, desired, status],
  );
}

/** Sets what the engine made of it. Returns the row, or undefined when it is gone or being deleted. */
export function setStatus(
  db: Queries,
  id: string,
  change: { status: ContainerRow['status']; reason: string | null; address: string | null },
): Promise<ContainerRow | undefined> {
  return db.one(
    containerRow,
    `update containers set status = $2, status_reason = $3, address = $4,
       status_since = case when status = $2 then status_since else now() end
     where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
    [id, change.status, change.reason, change.address],
  );
}

/** Forgets a container whose deletion is complete. */
export async function forgetContainer(db: Queries, id: string): Promise<void> {
  await db.run(`delete from containers where id = $1 and desired = 'deleted'`, [id]);
}
