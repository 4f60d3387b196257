/** SQL of SSH public keys. */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';

const fingerprintRow = z.object({ fingerprint: z.string() });
const containerIdRow = z.object({ id: z.string() });
const namedKeyRow = z.object({ name: z.string(), fingerprint: z.string() });
const keysRow = z.object({ keys: z.array(z.string()), keys_revision: z.number() });
const keyIdRow = z.object({ id: z.number() });

const keyRow = z
  .object({ id: z.number(), name: z.string(), public_key: z.string(), created_at: z.date(), login: z.boolean() })
  .transform((row) => ({
    id: row.id,
    name: row.name,
    publicKey: row.public_key,
    createdAt: row.created_at,
    isLogin: row.login,
  }));
export type SshKeyRow = z.output<typeof keyRow>;

const COLUMNS = 'id, name, public_key, created_at, login';

/** The user's keys, oldest first. */
export function listKeys(db: Queries, userId: string): Promise<SshKeyRow[]> {
  return db.many(keyRow, `select ${COLUMNS} from ssh_keys where user_id = $1 order by id`, [userId]);
}

/** Which of `ids` are keys of this user. */
export async function ownedKeys(db: Queries, userId: string, ids: readonly number[]): Promise<number[]> {
  const rows = await db.many(keyIdRow, 'select id from ssh_keys where user_id = $1 and id = any($2::int[])', [
    userId,
    ids,
  ]);
  return rows.map((row) => row.id);
}

/** Adds a key in a free slot: the key, `full` when there is no slot, `duplicate` when the user has this key. */
export async function insertKey(
  db: Queries,
  key: { userId: string; name: string; publicKey: string; fingerprint: string; isLogin?: boolean },
): Promise<SshKeyRow | 'full' | 'duplicate'> {
  for (;;) {
    const row = await db.one(
      keyRow,
      `insert into ssh_keys (user_id, slot, name, public_key, fingerprint, login)
       select $1, slot, $2, $3, $4, $5 from generate_series(1, 10) as slot
       where not exists (select from ssh_keys k where k.user_id = $1 and k.slot = slot.slot) limit 1
       on conflict do nothing returning ${COLUMNS}`,
      [key.userId, key.name, key.publicKey, key.fingerprint, key.isLogin ?? false],
    );
    if (row !== undefined) return row;
    const present = await db.many(fingerprintRow, 'select fingerprint from ssh_keys where user_id = $1', [key.userId]);
    if (present.some(({ fingerprint }) => fingerprint === key.fingerprint)) return 'duplicate';
    if (present.length >= 10) return 'full';
    // Another insert took the slot between our look and our write.
  }
}

const switchedRow = z.object({ fingerprint: z.string(), was: z.boolean() });

/** Says whether a key of this user opens the account. Undefined when it is not there; `was`: whether it did before. */
export async function setKeyLogin(
  tx: Tx,
  userId: string,
  id: number,
  isLogin: boolean,
): Promise<{ readonly key: SshKeyRow; readonly fingerprint: string; readonly was: boolean } | undefined> {
  // Compared as bigint, as in deleteKey.
  const before = await tx.one(
    switchedRow,
    'select fingerprint, login as was from ssh_keys where user_id = $1 and id = $2::bigint for update',
    [userId, id],
  );
  if (before === undefined) return undefined;
  const key = await tx.one(
    keyRow,
    `update ssh_keys set login = $3 where user_id = $1 and id = $2::bigint returning ${COLUMNS}`,
    [userId, id, isLogin],
  );
  return key === undefined ? undefined : { ...before, key };
}

/** A key that was deleted, and the containers it was let into. */
interface DeletedKey {
  readonly name: string;
  readonly fingerprint: string;
  readonly containerIds: readonly string[];
}

/**
 * Deletes a key of this user; its containers are to be told (`keysRevision` rises). Undefined when it was not there.
 */
export async function deleteKey(tx: Tx, userId: string, id: number): Promise<DeletedKey | undefined> {
  const changed = await tx.many(
    containerIdRow,
    `update containers set keys_revision = keys_revision + 1
     where user_id = $1 and id in (select container_id from container_keys where key_id = $2::bigint) returning id`,
    [userId, id],
  );
  // Compared as bigint, since an id from outside may be larger than any that was given out.
  const deleted = await tx.one(
    namedKeyRow,
    'delete from ssh_keys where user_id = $1 and id = $2::bigint returning name, fingerprint',
    [userId, id],
  );
  return deleted === undefined ? undefined : { ...deleted, containerIds: changed.map((row) => row.id) };
}

/** Deletes all keys of a user who has no containers. */
export async function deleteKeysOfUser(tx: Tx, userId: string): Promise<void> {
  await tx.run('delete from ssh_keys where user_id = $1', [userId]);
}

/** Lets `keyIds` into a container. */
export async function attachKeys(tx: Tx, containerId: string, keyIds: readonly number[]): Promise<void> {
  await tx.run('insert into container_keys (container_id, key_id) select $1, unnest($2::int[])', [containerId, keyIds]);
}

/**
 * The public keys of its user that may enter a container (none while SSH is disabled), and the revision they stand for.
 */
export async function keysOfContainer(
  db: Queries,
  containerId: string,
): Promise<{ keys: readonly string[]; revision: number }> {
  const row = await db.one(
    keysRow,
    // One statement, so that keys and revision belong together.
    `select c.keys_revision, array(select k.public_key from ssh_keys k join container_keys on key_id = k.id
       where container_id = c.id and c.ssh_enabled order by k.id) as keys
     from containers c where c.id = $1`,
    [containerId],
  );
  return { keys: row?.keys ?? [], revision: row?.keys_revision ?? 0 };
}
