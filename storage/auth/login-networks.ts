/**
 * SQL of the networks a user has logged in from: the throttle knows the user there
 * (actors/auth/login/throttle-rules.ts).
 */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { USER_COLUMNS, type UserRow, userRow } from './users.ts';

/** How long a network is known after the last login from there. */
const KNOWN_DAYS = 90;

const atNetworkRow = z.object({ known: z.boolean(), counted: z.boolean(), has_keys: z.boolean() }).and(userRow);

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
         exists (select from security_keys k where k.user_id = users.id) as has_keys
       from users where username = $1
     ), first as (
       insert into login_attempts (key, failures) select $3, 1 from found where known on conflict (key) do nothing
       returning 1
     )
     select found.*, exists (select from first) as counted from found`,
    [username, network, attemptKey],
  );
  if (row === undefined) return undefined;
  const { known, counted, has_keys: hasSecurityKeys, ...user } = row;
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
