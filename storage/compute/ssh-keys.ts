/** SQL of SSH public keys. */
import { z } from 'zod';
import type { Caller } from '../../proto/endpoint.ts';
import { DEFAULT_USER_LIMITS } from '../../proto/user-limits.ts';
import { epochOfSession, sessionsEpoch } from '../auth/sessions.ts';
import type { Queries, Tx } from '../db.ts';
import { columnsOf, manyValues } from '../rows.ts';

const keysRow = z.object({ keys: z.array(z.string()), revision: z.number() });
const keyRow = z.object({
  id: z.number(),
  name: z.string(),
  publicKey: z.string(),
  createdAt: z.date(),
  isLogin: z.boolean(),
});

export type SshKeyRow = z.output<typeof keyRow>;

/** A mark counts in the user's epoch in which it was made, and is over in the next (`endSessions`). */
const marked = (epoch: string) => `coalesce(login and login_epoch = ${epoch}::int, false)`;
const columns = (epoch: string) => columnsOf(keyRow, { isLogin: marked(epoch) });

/** The session that lets a key log in. */
type Marker = Pick<Caller, 'tokenId' | 'session'>;

/** The user's keys, oldest first. */
export async function listKeys(db: Queries, userId: string): Promise<SshKeyRow[]> {
  const epoch = await sessionsEpoch(db, userId);
  return db.many(keyRow, `select ${columns('$2')} from ssh_keys where user_id = $1 order by id`, [userId, epoch]);
}

/** Which of `ids` are keys of this user. */
export function ownedKeys(db: Queries, userId: string, ids: readonly number[]): Promise<number[]> {
  const owned = 'select id from ssh_keys where user_id = $1 and id = any($2::int[])';
  return manyValues(db, z.number(), owned, [userId, ids]);
}

/**
 * Adds a key in a free slot: the key, `full` when the user has `most` or more, `duplicate` when they have this key.
 * `markedBy`: it opens the account.
 */
export async function insertKey(
  db: Queries,
  key: { userId: string; name: string; publicKey: string; fingerprint: string; markedBy?: Marker },
  most: number = DEFAULT_USER_LIMITS.ssh_keys,
): Promise<SshKeyRow | 'full' | 'duplicate'> {
  const { markedBy } = key;
  const epoch = markedBy === undefined ? null : await epochOfSession(db, key.userId, markedBy);
  for (;;) {
    const row = await db.one(
      keyRow,
      `insert into ssh_keys (user_id, slot, name, public_key, fingerprint, login, login_epoch)
       select $1, slot, $2, $3, $4, $5, $6::int from generate_series(1, $7::int) as slot
       where not exists (select from ssh_keys k where k.user_id = $1 and k.slot = slot.slot)
         and (select count(*) from ssh_keys k where k.user_id = $1) < $7 limit 1
       on conflict do nothing returning ${columns('$6')}`,
      [key.userId, key.name, key.publicKey, key.fingerprint, markedBy !== undefined, epoch, most],
    );
    if (row !== undefined) return row;
    const present = await manyValues(db, z.string(), 'select fingerprint from ssh_keys where user_id = $1', [
      key.userId,
    ]);
    if (present.includes(key.fingerprint)) return 'duplicate';
    if (present.length >= most) return 'full';
    // Another insert took the slot between our look and our write.
  }
}

const switchedRow = z.object({ fingerprint: z.string(), was: z.boolean() });

/**
 * Lets a key of this user open the account, or no longer where `markedBy` is undefined. Undefined when it is not there;
 * `was`: whether it did before.
 */
export async function setKeyLogin(
  tx: Tx,
  userId: string,
  id: number,
  markedBy: Marker | undefined,
): Promise<{ readonly key: SshKeyRow; readonly fingerprint: string; readonly was: boolean } | undefined> {
  // Compared as bigint, as in deleteKey.
  const before = await tx.one(
    switchedRow,
    `select fingerprint, ${marked('$3')} as was from ssh_keys where user_id = $1 and id = $2::bigint for update`,
    [userId, id, await sessionsEpoch(tx, userId)],
  );
  if (before === undefined) return undefined;
  const epoch = markedBy === undefined ? null : await epochOfSession(tx, userId, markedBy);
  const key = await tx.one(
    keyRow,
    `update ssh_keys set login = $3, login_epoch = $4
     where user_id = $1 and id = $2::bigint returning ${columns('$4')}`,
    [userId, id, markedBy !== undefined, epoch],
  );
  return key === undefined ? undefined : { ...before, key };
}

const namedKeyRow = z.object({ name: z.string(), fingerprint: z.string() });
/** A key that was deleted, and the containers it was let into. */
type DeletedKey = z.output<typeof namedKeyRow> & { readonly containerIds: readonly string[] };

/**
 * Deletes a key of this user; its containers are to be told (`keysRevision` rises). Undefined when it was not there.
 */
export async function deleteKey(tx: Tx, userId: string, id: number): Promise<DeletedKey | undefined> {
  const containerIds = await manyValues(
    tx,
    z.string(),
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
  return deleted === undefined ? undefined : { ...deleted, containerIds };
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
    `select c.keys_revision as revision, array(select k.public_key from ssh_keys k join container_keys on key_id = k.id
       where container_id = c.id and c.ssh_enabled order by k.id) as keys
     from containers c where c.id = $1`,
    [containerId],
  );
  return row ?? { keys: [], revision: 0 };
}
