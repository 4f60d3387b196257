/**
 * What operators do with users, at the command line or as the administrator by HTTP: `entry` says whose deed it is.
 * Each change tells the running platform through the outbox.
 */
import { randomInt, randomUUID } from 'node:crypto';
import { passwordSchema, userChanged, usernameSchema } from '../../../proto/auth/endpoints.ts';
import { Refusal } from '../../../proto/errors.ts';
import { newId } from '../../../proto/ids.ts';
import { audit } from '../../../storage/audit.ts';
import { forgetNetworks } from '../../../storage/auth/attempts.ts';
import { deleteSecurityKeys } from '../../../storage/auth/security-keys.ts';
import { endSessions } from '../../../storage/auth/sessions.ts';
import {
  insertUser,
  listUsers as rows,
  setPasswordHash,
  setRegistryLimit,
  type UserRow,
  userByName,
} from '../../../storage/auth/users.ts';
import type { Db, Tx } from '../../../storage/db.ts';
import { append } from '../../../storage/outbox.ts';
import { type EntryMaker, OPERATOR, operatorEntry } from '../../service/audit.ts';
import { found } from '../../service/dispatch.ts';
import { hashPassword } from '../login/passwords.ts';

/** A password for a person to copy: 20 characters, about 117 bits, none that look alike. */
export function generatePassword(): string {
  const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789';
  return Array.from({ length: 20 }, () => alphabet[randomInt(alphabet.length)]).join('');
}

/** Somebody who was just added. */
type AddedUser = { readonly id: string; readonly username: string };

/**
 * Adds a user. Refuses `invalid_request` (name or password) and `conflict` (name taken). `besides`: what else is
 * written in the same transaction.
 */
export async function addUser(
  db: Db,
  username: string,
  password: string,
  entry: EntryMaker = operatorEntry,
  besides: (tx: Tx, added: AddedUser) => Promise<unknown> = async () => {},
): Promise<AddedUser> {
  accept(usernameSchema.safeParse(username), 'username');
  if (username === OPERATOR)
    throw new Refusal('invalid_request', { message: `The username must not be "${OPERATOR}".` });
  acceptPassword(password, username);
  const id = newId();
  const passwordHash = await hashPassword(password);
  await db.tx(async (tx) => {
    const added = await insertUser(tx, { id, username, passwordHash });
    if (!added) throw new Refusal('conflict', { message: `There is a user ${username} already.` });
    await audit(tx, entry('user.add', id, { username }));
    await besides(tx, { id, username });
  });
  return { id, username };
}

/** Sets a password and ends the user's sessions. Returns how many. Refuses `invalid_request` and `not_found`. */
export async function setPassword(
  db: Db,
  username: string,
  password: string,
  entry: EntryMaker = operatorEntry,
): Promise<number> {
  acceptPassword(password, username);
  const passwordHash = await hashPassword(password);
  return db.tx(async (tx) => {
    const user = await userNamed(tx, username);
    const ended = await writePassword(tx, user.id, passwordHash, null);
    await audit(tx, entry('user.password', user.id, { username }));
    return ended;
  });
}

/**
 * Writes the hash of a password that no session of the user asked for: their sessions end, and all networks but
 * `network` are unknown from then on. Returns how many sessions ended.
 */
export async function writePassword(
  tx: Tx,
  userId: string,
  passwordHash: string,
  network: string | null,
): Promise<number> {
  await setPasswordHash(tx, userId, passwordHash, null);
  await forgetNetworks(tx, userId, network);
  const ended = await endSessions(tx, userId);
  await append(tx, { msgId: randomUUID(), subject: userChanged.subject(userId), data: new Uint8Array() });
  return ended;
}

/** Deletes all security keys, for who lost them: the password alone opens. Returns how many. Refuses `not_found`. */
export async function forgetKeys(db: Db, username: string, entry: EntryMaker = operatorEntry): Promise<number> {
  return db.tx(async (tx) => {
    const user = await userNamed(tx, username);
    const keys = await deleteSecurityKeys(tx, user.id);
    await audit(tx, entry('security_key.forget', username, { keys }));
    return keys;
  });
}

/**
 * Sets how many MiB the images of one user may hold; null: what REGISTRY_USER_MB says. It holds from the next request
 * of a push on. Returns the one before, and whether that was another. Refuses `not_found`, and `conflict` for the
 * administrator.
 */
export function limitImages(
  db: Db,
  username: string,
  limitMb: number | null,
  adminUsername: string,
  entry: EntryMaker = operatorEntry,
): Promise<{ readonly id: string; readonly before: number | null; readonly changed: boolean }> {
  return db.tx(async (tx) => {
    const { id } = await userNamed(tx, username);
    if (username === adminUsername)
      throw new Refusal('conflict', {
        message: `${username} is the administrator, whose images have no limit: name another user.`,
      });
    const before = await setRegistryLimit(tx, id, limitMb);
    if (before === undefined) return { id, before: limitMb, changed: false };
    const detail = { username, registry_limit_mb: { before, after: limitMb } };
    await audit(tx, entry('user.registry_limit', id, detail));
    return { id, before, changed: true };
  });
}

/** All users, by name. */
export async function listUsers(db: Db): Promise<Omit<UserRow, 'passwordHash'>[]> {
  return (await rows(db)).map(({ passwordHash: _, ...user }) => user);
}

/** Makes the first administrator when there is none. Returns the password if it was generated here. */
export async function ensureAdmin(
  db: Db,
  username: string,
  password: string | undefined,
): Promise<{ created: boolean; generated: string | null }> {
  if ((await userByName(db, username)) !== undefined) return { created: false, generated: null };
  const chosen = password ?? generatePassword();
  try {
    await addUser(db, username, chosen);
  } catch (error) {
    // Another process made it between our look and our write.
    if (error instanceof Refusal && error.code === 'conflict') return { created: false, generated: null };
    throw error;
  }
  return { created: true, generated: password === undefined ? chosen : null };
}

/** The user of a name. Refuses `not_found`. */
export async function userNamed(tx: Tx, username: string): Promise<UserRow> {
  const noUser = () => new Refusal('not_found', { message: `There is no user ${username}.` });
  return found(await userByName(tx, username), noUser);
}

/** Refuses `invalid_request` for a password that this user may not have. */
export function acceptPassword(password: string, username: string): void {
  accept(passwordSchema.safeParse(password), 'password');
  if (password.toLowerCase() === username)
    throw new Refusal('invalid_request', { message: 'The password must not be the username.' });
}

function accept(
  result: { success: boolean; error?: { issues: readonly { message: string }[] } | undefined },
  what: string,
): void {
  if (!result.success)
    throw new Refusal('invalid_request', {
      message: `The ${what} ${result.error?.issues[0]?.message ?? 'is not valid'}.`,
    });
}
