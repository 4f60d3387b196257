/** SQL of security keys, and of the tokens of their ceremonies, which count once. */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { columnsOf, oneValue } from '../rows.ts';

const keyRow = z.object({
  id: z.string(),
  publicKey: z.custom<Uint8Array>((value) => value instanceof Uint8Array),
  counter: z.number(),
  transports: z.array(z.string()),
  name: z.string(),
  authenticatorType: z.string(),
  userVerified: z.boolean(),
  createdAt: z.date(),
});

/** A key as stored. `id`: credential id, base64url; `publicKey`: COSE (RFC 9052, section 7). */
type SecurityKeyRow = z.output<typeof keyRow>;

const COLUMNS = columnsOf(keyRow);

/** The user's keys, oldest first. */
export function listSecurityKeys(db: Queries, userId: string): Promise<SecurityKeyRow[]> {
  return db.many(keyRow, `select ${COLUMNS} from security_keys where user_id = $1 order by created_at, id`, [userId]);
}

/** One key of the user. */
export function findSecurityKey(db: Queries, userId: string, id: string): Promise<SecurityKeyRow | undefined> {
  return db.one(keyRow, `select ${COLUMNS} from security_keys where user_id = $1 and id = $2`, [userId, id]);
}

/** How many keys the user has. */
export async function countSecurityKeys(db: Queries, userId: string): Promise<number> {
  return (await oneValue(db, z.number(), 'select count(*) from security_keys where user_id = $1', [userId])) ?? 0;
}

/** Adds a key; false when somebody, whoever it is, has a key with this id. */
export async function insertSecurityKey(
  tx: Queries,
  userId: string,
  key: Omit<SecurityKeyRow, 'createdAt'>,
): Promise<boolean> {
  const rows = await tx.run(
    `insert into security_keys (id, user_id, public_key, counter, transports, name, authenticator_type, user_verified)
     values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (id) do nothing`,
    [key.id, userId, key.publicKey, key.counter, key.transports, key.name, key.authenticatorType, key.userVerified],
  );
  return rows === 1;
}

/** Moves the counter on from `from`; false when it is no longer there, or the key is gone: of two at once one wins. */
export async function advanceCounter(
  tx: Queries,
  { userId, id, from, to }: { userId: string; id: string; from: number; to: number },
): Promise<boolean> {
  const advance = 'update security_keys set counter = $4 where user_id = $1 and id = $2 and counter = $3';
  return (await tx.run(advance, [userId, id, from, to])) === 1;
}

/** Renames a key; whether that changed its name, undefined when the user has no such key. */
export async function renameSecurityKey(
  tx: Queries,
  userId: string,
  id: string,
  name: string,
): Promise<boolean | undefined> {
  const key = [userId, id];
  const held = 'select name from security_keys where user_id = $1 and id = $2 for update';
  const before = await oneValue(tx, z.string(), held, key);
  if (before === undefined || before === name) return before === undefined ? undefined : false;
  await tx.run('update security_keys set name = $3 where user_id = $1 and id = $2', [...key, name]);
  return true;
}

/** Deletes a key. Returns its name; undefined when the user has no such key. */
export function deleteSecurityKey(tx: Queries, userId: string, id: string): Promise<string | undefined> {
  const deleted = 'delete from security_keys where user_id = $1 and id = $2 returning name';
  return oneValue(tx, z.string(), deleted, [userId, id]);
}

/** Deletes all keys of the user. Returns how many went. */
export function deleteSecurityKeys(tx: Queries, userId: string): Promise<number> {
  return tx.run('delete from security_keys where user_id = $1', [userId]);
}

/** Marks the token spent; false when it was already. Nobody can present it after `expiresAt` (unix seconds). */
export async function spendToken(db: Queries, id: string, expiresAt: number): Promise<boolean> {
  const rows = await db.run(
    'insert into spent_tokens (id, expires_at) values ($1, to_timestamp($2)) on conflict (id) do nothing',
    [id, expiresAt],
  );
  return rows === 1;
}

/** Forgets tokens that have expired an hour ago, so that clocks may differ. Returns how many went. */
export function purgeSpentTokens(db: Queries): Promise<number> {
  return db.run(`delete from spent_tokens where expires_at < now() - interval '1 hour'`);
}
