/** SQL of whose account a key opens by SSH. */
import { z } from 'zod';
import { isUsername } from '../auth/users.ts';
import type { Queries } from '../db.ts';
import { columnsOf, fieldsOf, manyValues } from '../rows.ts';

const keyOwnerRow = z.object({
  userId: z.string(),
  username: z.string(),
  /** A new password, or the end of all sessions, begins the user's next one. */
  sessionsEpoch: z.number(),
  keyName: z.string(),
  isLogin: z.boolean(),
});

/** Somebody who has a key. */
type KeyOwner = Readonly<z.output<typeof keyOwnerRow>>;

/** Who has a key, and whether the name that was given is that of a user, also of one who is disabled. */
export interface KeyHolders {
  readonly owners: readonly KeyOwner[];
  readonly isUsername: boolean;
}

/**
 * Whoever has the key and may log in, at most `limit`: the user named `user` first, then those whose account it opens.
 * Of a key that nobody has, nobody learns who is a user: the name is not looked up.
 */
export async function holdersOfKey(db: Queries, user: string, fingerprint: string, limit: number): Promise<KeyHolders> {
  const owners = await db.many(
    keyOwnerRow,
    `select ${columnsOf(keyOwnerRow, { keyName: 'name', isLogin: 'login' })}
     from account_keys where fingerprint = $2 order by username = $1 desc, login desc, user_id limit $3`,
    [user, fingerprint, limit],
  );
  return { owners, isUsername: owners.length > 0 && (await isUsername(db, user)) };
}

/** For each login, in order, whether its key still opens the account, in the same epoch. */
export async function stillOpened(
  db: Queries,
  logins: readonly { readonly userId: string; readonly fingerprint: string; readonly sessionsEpoch: number }[],
): Promise<boolean[]> {
  const places = await manyValues(
    db,
    z.number(),
    `select q.place
     from unnest($1::text[], $2::text[], $3::int[]) with ordinality as q (user_id, fingerprint, epoch, place)
     join account_keys a on a.user_id = q.user_id and a.fingerprint = q.fingerprint
     where a.login and a.sessions_epoch = q.epoch`,
    fieldsOf(logins, 'userId', 'fingerprint', 'sessionsEpoch'),
  );
  const open = new Set(places);
  return logins.map((_, at) => open.has(at + 1));
}
