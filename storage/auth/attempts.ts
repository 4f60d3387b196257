/**
 * SQL of the login throttle: failures counted under a key, in one place for all nodes, and the networks that a user has
 * logged in from. The rules are those of actors/auth/login/throttle-rules.ts.
 */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import { fieldsOf } from '../rows.ts';
import { USER_COLUMNS, type UserRow, userRow } from './users.ts';

const attemptRow = z.object({
  key: z.string(),
  failures: z.number(),
  lastAt: z.number(),
  blockedUntil: z.number(),
  now: z.number(),
});

/** What is counted under a key; times in unix seconds. `now` is the database's, the one clock of all nodes. */
export type AttemptRow = z.output<typeof attemptRow>;

/**
 * The counts under `keys`, made where there was none, and held until the transaction ends: nobody else counts
 * meanwhile. The keys are taken in one order everywhere, so that no two wait for each other.
 */
export function holdAttempts(tx: Tx, keys: readonly string[]): Promise<AttemptRow[]> {
  return tx.many(
    attemptRow,
    `insert into login_attempts as a (key) select k from unnest($1::text[]) as k order by k collate "C"
     on conflict (key) do update set key = excluded.key
     returning key, failures, extract(epoch from last_at)::float8 as "lastAt",
       extract(epoch from blocked_until)::float8 as "blockedUntil", extract(epoch from clock_timestamp())::float8 as
       now`,
    [keys],
  );
}

/** Writes counts that are held. */
export async function writeAttempts(
  tx: Tx,
  counts: readonly Pick<AttemptRow, 'key' | 'failures' | 'lastAt' | 'blockedUntil'>[],
): Promise<void> {
  await tx.run(
    `update login_attempts a set failures = c.failures, last_at = to_timestamp(c.last_at), blocked_until =
      to_timestamp(c.blocked_until)
     from unnest($1::text[], $2::float8[], $3::float8[], $4::float8[]) as c (key, failures, last_at, blocked_until)
     where a.key = c.key`,
    fieldsOf(counts, 'key', 'failures', 'lastAt', 'blockedUntil'),
  );
}

/** Forgets what is counted under a key. */
export async function clearAttempts(db: Queries, key: string): Promise<void> {
  await db.run('delete from login_attempts where key = $1', [key]);
}

/** Drops what a quiet hour has forgotten. Returns how many rows went. */
export function purgeAttempts(db: Queries): Promise<number> {
  return db.run(`delete from login_attempts where last_at < now() - interval '1 hour' and blocked_until < now()`);
}

/** How long a network is known after the last login from there. */
const KNOWN_DAYS = 90;

const atNetworkRow = z.object({ known: z.boolean(), counted: z.boolean(), hasSecurityKeys: z.boolean() }).and(userRow);

/** A user as somebody at a network finds them. */
interface UserAtNetwork {
  readonly user: UserRow;
  /** They have logged in from there. */
  readonly known: boolean;
  /** They have security keys: the password alone does not let them in. */
  readonly hasSecurityKeys: boolean;
  /** The attempt was counted, as the first one. */
  readonly counted: boolean;
}

/**
 * The user with this name; undefined when there is none. When the network is known for theirs and nothing is counted
 * under `attemptKey` yet, one failure is: who types the right password at home should not wait for a second statement.
 */
export async function userAtNetwork(
  db: Queries,
  username: string,
  network: string,
  attemptKey: string,
): Promise<UserAtNetwork | undefined> {
  const row = await db.one(
    atNetworkRow,
    `with found as (
       select ${USER_COLUMNS}, exists (select from login_networks n where n.user_id = users.id and n.network = $2
         and n.last_at > now() - make_interval(days => ${KNOWN_DAYS})) as known,
         exists (select from security_keys k where k.user_id = users.id) as "hasSecurityKeys"
       from users where username = $1
     ), first as (
       insert into login_attempts (key, failures) select $3, 1 from found where known on conflict (key) do nothing
       returning 1
     )
     select found.*, exists (select from first) as counted from found`,
    [username, network, attemptKey],
  );
  if (row === undefined) return undefined;
  const { known, counted, hasSecurityKeys, ...user } = row;
  return { user, known, hasSecurityKeys, counted };
}

/** Forgets the user's networks but one: after a change of the password whoever used the old one is a stranger again. */
export async function forgetNetworks(tx: Queries, userId: string, except: string | null): Promise<void> {
  await tx.run('delete from login_networks where user_id = $1 and network is distinct from $2', [userId, except]);
}

/** Drops networks nobody has logged in from for long. Returns how many went. */
export function purgeNetworks(db: Queries): Promise<number> {
  return db.run(`delete from login_networks where last_at < now() - make_interval(days => ${KNOWN_DAYS})`);
}
