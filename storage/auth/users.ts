/** SQL of users. */
import { z } from 'zod';
import { isConstraint, type Queries, type Tx } from '../db.ts';
import { columnsOf, oneValue } from '../rows.ts';

/** The columns of USER_COLUMNS. */
export const userRow = z.object({
  id: z.string(),
  username: z.string(),
  displayName: z.string(),
  passwordHash: z.string(),
  createdAt: z.date(),
  /** Since when they may not log in; null: they may. */
  disabledAt: z.date().nullable(),
  /** What is still to be done with what they have (storage/offboarding.ts). */
  leaving: z.enum(['stop', 'remove']).nullable(),
  /** Sessions of other epochs are over (`endSessions`). */
  sessionsEpoch: z.number(),
  /** MiB that their images may hold in the platform's own registry; null: as many as the platform says. */
  registryLimitMb: z.number().nullable(),
});

/** A user as stored. The hash is argon2id in PHC form. */
export type UserRow = z.output<typeof userRow>;

export const USER_COLUMNS = columnsOf(userRow);

/** The user with this name, or undefined. */
export function userByName(db: Queries, username: string): Promise<UserRow | undefined> {
  return db.one(userRow, `select ${USER_COLUMNS} from users where username = $1`, [username]);
}

/** The user with this id, or undefined. */
export function userById(db: Queries, id: string): Promise<UserRow | undefined> {
  return db.one(userRow, `select ${USER_COLUMNS} from users where id = $1`, [id]);
}

/** The name of the user with this id, or undefined: for services that have no business with passwords. */
export function usernameById(db: Queries, id: string): Promise<string | undefined> {
  return oneValue(db, z.string(), 'select username from users where id = $1', [id]);
}

/** Whether a user has this name, also one who is disabled. */
export async function isUsername(db: Queries, name: string): Promise<boolean> {
  return (await db.run('select from users where username = $1', [name])) > 0;
}

/** Locks the user's row until the transaction ends, so that counts of the user stay true. False when there is none. */
export async function holdUser(tx: Queries, id: string): Promise<boolean> {
  return (await tx.run('select from users where id = $1 for no key update', [id])) > 0;
}

/** A page of users by name: those whose name begins with `prefix` and comes after `after`. */
export function usersAfter(
  db: Queries,
  { prefix, after, limit }: { readonly prefix: string; readonly after: string; readonly limit: number },
): Promise<UserRow[]> {
  return db.many(
    userRow,
    `select ${USER_COLUMNS} from users where starts_with(username, $1) and username > $2 order by username limit $3`,
    [prefix, after, limit],
  );
}

/** All users by name. */
export function listUsers(db: Queries): Promise<UserRow[]> {
  return db.many(userRow, `select ${USER_COLUMNS} from users order by username`);
}

/** Adds a user whose display name is the username. Returns false when the name is taken. */
export async function insertUser(
  db: Queries,
  user: { id: string; username: string; passwordHash: string },
): Promise<boolean> {
  try {
    await db.run('insert into users (id, username, display_name, password_hash) values ($1, $2, $2, $3)', [
      user.id,
      user.username,
      user.passwordHash,
    ]);
    return true;
  } catch (error) {
    if (isConstraint(error, 'users_username_key')) return false;
    throw error;
  }
}

/** The registry may have images of users of these names. */
export async function noteImages(db: Queries, usernames: readonly string[]): Promise<void> {
  await db.run('update users set has_images = true where username = any($1) and not has_images', [usernames]);
}

/** MiB that the images of the user of this name may hold; null: as the platform says, or there is no such user. */
export async function registryLimitOf(db: Queries, username: string): Promise<number | null> {
  const limit = 'select registry_limit_mb from users where username = $1';
  return (await oneValue(db, z.number().nullable(), limit, [username])) ?? null;
}

/** Sets that limit. The one before, or undefined when nothing changed: that was the limit, or there is no such user. */
export async function setRegistryLimit(tx: Tx, id: string, limitMb: number | null): Promise<number | null | undefined> {
  return oneValue(
    tx,
    z.number().nullable(),
    `with former as (select registry_limit_mb as before from users where id = $1 for no key update)
     update users set registry_limit_mb = $2 from former
     where id = $1 and registry_limit_mb is distinct from $2 returning former.before`,
    [id, limitMb],
  );
}

/**
 * Changes the display name; the user as it is now, or undefined when nothing changed: that was the name, or there is no
 * such user.
 */
export function setDisplayName(db: Queries, id: string, displayName: string): Promise<UserRow | undefined> {
  return db.one(
    userRow,
    `update users set display_name = $2 where id = $1 and display_name <> $2 returning ${USER_COLUMNS}`,
    [id, displayName],
  );
}

/**
 * Changes the password hash, if it is still `old` (null: whatever it is); the user as it is now, or undefined when
 * nothing changed. Whoever does it ends sessions in the same transaction (storage/auth/sessions.ts).
 */
export function setPasswordHash(
  tx: Tx,
  id: string,
  passwordHash: string,
  old: string | null,
): Promise<UserRow | undefined> {
  return tx.one(
    userRow,
    `update users set password_hash = $2, password_changed_at = now()
     where id = $1 and ($3::text is null or password_hash = $3) returning ${USER_COLUMNS}`,
    [id, passwordHash, old],
  );
}

/**
 * Replaces a hash by one of the same password with newer parameters. False when it changed meanwhile, and stays as it
 * is.
 */
export async function rehash(db: Queries, id: string, old: string, passwordHash: string): Promise<boolean> {
  const values = [id, old, passwordHash];
  return (await db.run('update users set password_hash = $3 where id = $1 and password_hash = $2', values)) === 1;
}
