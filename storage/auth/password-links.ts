/**
 * SQL of links by which a user sets a password. Whoever changes one holds the user's row first, as `disable` does
 * (storage/offboarding.ts), so that no two wait for each other.
 */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import { oneValue } from '../rows.ts';

const linkRow = z.object({ userId: z.string(), username: z.string(), expiresAt: z.date() });
const ownerRow = z.object({ id: z.string(), username: z.string() });

/** A link that holds, and whose it is. */
type PasswordLink = z.output<typeof linkRow>;

/** Stores a link in the place of the user's former one, and returns when it ends. The user is held. */
export async function storePasswordLink(
  tx: Tx,
  { userId, tokenHash, seconds }: { readonly userId: string; readonly tokenHash: string; readonly seconds: number },
): Promise<Date> {
  const expiresAt = await oneValue(
    tx,
    z.date(),
    `insert into password_links (user_id, token_hash, expires_at) values ($1, $2, now() + make_interval(secs => $3))
     on conflict (user_id) do update set token_hash = excluded.token_hash, created_at = now(),
       expires_at = excluded.expires_at
     returning expires_at`,
    [userId, tokenHash, seconds],
  );
  if (expiresAt === undefined) throw new TypeError('a link that was stored is not there');
  return expiresAt;
}

/** The link, if it holds and its user may log in. */
export function passwordLink(db: Queries, tokenHash: string): Promise<PasswordLink | undefined> {
  return db.one(
    linkRow,
    `select u.id as "userId", u.username, l.expires_at as "expiresAt"
     from password_links l join users u on u.id = l.user_id
     where l.token_hash = $1 and l.expires_at > now() and u.disabled_at is null`,
    [tokenHash],
  );
}

/**
 * Ends the link and returns its user, who is held. Undefined when it does not hold: of several at once, one gets the
 * user.
 */
export async function takePasswordLink(tx: Tx, tokenHash: string): Promise<z.output<typeof ownerRow> | undefined> {
  const user = await tx.one(
    ownerRow,
    `select id, username from users
     where id = (select user_id from password_links where token_hash = $1) and disabled_at is null
     for no key update`,
    [tokenHash],
  );
  if (user === undefined) return undefined;
  const taken = await tx.run(
    'delete from password_links where token_hash = $1 and user_id = $2 and expires_at > now()',
    [tokenHash, user.id],
  );
  return taken === 1 ? user : undefined;
}

/** Voids the user's link, if there is one. */
export function voidPasswordLink(db: Queries, userId: string): Promise<number> {
  return db.run('delete from password_links where user_id = $1', [userId]);
}

/** Forgets links whose time is over. Returns how many went. */
export function purgePasswordLinks(db: Queries): Promise<number> {
  return db.run('delete from password_links where expires_at < now()');
}
