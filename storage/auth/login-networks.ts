/** SQL of the networks a user has logged in from: the throttle knows the user there (actors/auth/throttle-rules.ts). */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { USER_COLUMNS, type UserRow, userRow } from './users.ts';

/** How long a network is known after the last login from there. */
const KNOWN_DAYS = 90;
/** Networks kept for one user, the latest. */
const MAX_NETWORKS = 100;

/** The user with this name, and whether the network is known for theirs; undefined when there is no such user. */
export async function userAtNetwork(
  db: Queries,
  username: string,
  network: string,
): Promise<{ user: UserRow; known: boolean } | undefined> {
  const schema = z.object({ known: z.boolean() }).and(userRow);
  const row = await db.one(
    schema,
    `select ${USER_COLUMNS}, exists (select from login_networks n where n.user_id = users.id and n.network = $2
       and n.last_at > now() - make_interval(days => ${KNOWN_DAYS})) as known
     from users where username = $1`,
    [username, network],
  );
  if (row === undefined) return undefined;
  const { known, ...user } = row;
  return { user, known };
}

/** Notes that the user logged in from a network just now, and drops the user's oldest past the bound. */
export async function rememberNetwork(tx: Queries, userId: string, network: string): Promise<void> {
  await tx.run(
    `with gone as (
       delete from login_networks where user_id = $1 and network in
         (select network from login_networks where user_id = $1 and network <> $2 order by last_at desc offset ${MAX_NETWORKS - 1})
     )
     insert into login_networks (user_id, network) values ($1, $2)
     on conflict (user_id, network) do update set last_at = now()`,
    [userId, network],
  );
}

/** Forgets the user's networks but one: after a change of the password whoever used the old one is a stranger again. */
export async function forgetNetworks(tx: Queries, userId: string, except: string | null): Promise<void> {
  await tx.run('delete from login_networks where user_id = $1 and network is distinct from $2', [userId, except]);
}

/** Drops networks nobody has logged in from for long. Returns how many went. */
export function purgeNetworks(db: Queries): Promise<number> {
  return db.run(`delete from login_networks where last_at < now() - make_interval(days => ${KNOWN_DAYS})`);
}
