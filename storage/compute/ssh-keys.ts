/** SQL of SSH public keys. */
import { z } from 'zod';
import { isConstraint, type Queries, type Tx } from '../db.ts';

const keyRow = z
  .object({ id: z.number(), name: z.string(), public_key: z.string(), created_at: z.date() })
  .transform((row) => ({ id: row.id, name: row.name, publicKey: row.public_key, createdAt: row.created_at }));
export type SshKeyRow = z.output<typeof keyRow>;

const COLUMNS = 'id, name, public_key, created_at';

/** The user's keys, oldest first. */
export function listKeys(db: Queries, userId: string): Promise<SshKeyRow[]> {
  return db.many(keyRow, `select ${COLUMNS} from ssh_keys where user_id = $1 order by id`, [userId]);
}

/** Which of `ids` are keys of this user. */
export async function ownedKeys(db: Queries, userId: string, ids: readonly number[]): Promise<number[]> {
  const rows = await db.many(
    z.object({ id: z.number() }),
    'select id from ssh_keys where user_id = $1 and id = any($2::int[])',
    [userId, ids],
  );
  return rows.map((row) => row.id);
}

/** Adds a key in a free slot: the key, `full` when there is no slot, `duplicate` when the user has this key. */
export async function insertKey(
  db: Queries,
  key: { userId: string; name: string; publicKey: string; fingerprint: string },
): Promise<SshKeyRow | 'full' | 'duplicate'> {
  try {
    const row = await db.one(
      keyRow,
      `insert into ssh_keys (user_id, slot, name, public_key, fingerprint)
       select $1, slot, $2, $3, $4 from generate_series(1, 10) as slot
       where not exists (select from ssh_keys k where k.user_id = $1 and k.slot = slot.slot) limit 1
       returning ${COLUMNS}`,
      [key.userId, key.name, key.publicKey, key.fingerprint],
    );
    if (row !== undefined) return row;
  } catch (error) {
    if (isConstraint(error, 'ssh_keys_fingerprint_key')) return 'duplicate';
    // Another insert took the slot between our look and our write.
    if (isConstraint(error, 'ssh_keys_slot_key')) return insertKey(db, key);
    throw error;
  }
  return 'full';
}

/** Deletes a key of this user; containers forget it. Returns whether it was there. */
export async function deleteKey(db: Queries, userId: string, id: number): Promise<boolean> {
  // Compared as bigint, since an id from outside may be larger than any that was given out.
  return (await db.run('delete from ssh_keys where user_id = $1 and id = $2::bigint', [userId, id])) === 1;
}

/** Lets `keyIds` into a container. */
export async function attachKeys(tx: Tx, containerId: string, keyIds: readonly number[]): Promise<void> {
  await tx.run('insert into container_keys (container_id, key_id) select $1, unnest($2::int[])', [containerId, keyIds]);
}

/** The public keys that may enter a container. */
export async function keysOfContainer(db: Queries, containerId: string): Promise<string[]> {
  const rows = await db.many(
    z.object({ public_key: z.string() }),
    'select public_key from ssh_keys join container_keys on key_id = id where container_id = $1 order by id',
    [containerId],
  );
  return rows.map((row) => row.public_key);
}
