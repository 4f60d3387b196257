/**
 * Links by which a user sets a password once, so that nobody has to tell one. Whoever has the link needs nothing else;
 * storage has the hash of its token alone.
 */
import { createHash, randomBytes } from 'node:crypto';
import { PASSWORD_LINK_LIFETIMES, type PasswordLinkLifetime } from '../../../proto/auth/admin.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { storePasswordLink } from '../../../storage/auth/password-links.ts';
import type { Db, Tx } from '../../../storage/db.ts';
import { isUserActive } from '../../../storage/offboarding.ts';
import { type EntryMaker, operatorEntry } from '../../service/audit.ts';
import { userNamed } from './users.ts';

/** What a link is to be. */
interface WantedLink {
  /** Of the console, whose page it opens. */
  readonly origin: string;
  readonly expiresIn: PasswordLinkLifetime;
}

/** A link that was made. `url` holds the token, and is known only now. */
interface MadeLink {
  readonly url: string;
  readonly expiresAt: Date;
}

/** Whether it can be the token of a link at all. */
export function isLinkToken(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}

/** What storage knows a token by. A plain hash is enough for 256 random bits. */
export function hashOfLinkToken(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}

/**
 * Makes a link for the user of this name, which voids the one before. Refuses `not_found`, and `conflict` for a user
 * who may not log in.
 */
export function newPasswordLink(
  db: Db,
  username: string,
  wanted: WantedLink,
  entry: EntryMaker = operatorEntry,
): Promise<MadeLink> {
  return db.tx(async (tx) => {
    const user = await userNamed(tx, username);
    if (!(await isUserActive(tx, user.id)))
      throw new Refusal('conflict', {
        message:
          user.leaving === 'remove'
            ? `${username} is being removed.`
            : `${username} is disabled: enable them before you make a link.`,
      });
    return addPasswordLink(tx, user, wanted, entry);
  });
}

/** The same for a user who is held, or was just added. */
export async function addPasswordLink(
  tx: Tx,
  { id, username }: { readonly id: string; readonly username: string },
  { origin, expiresIn }: WantedLink,
  entry: EntryMaker = operatorEntry,
): Promise<MadeLink> {
  const token = randomBytes(32).toString('base64url');
  const seconds = PASSWORD_LINK_LIFETIMES[expiresIn];
  const expiresAt = await storePasswordLink(tx, { userId: id, tokenHash: hashOfLinkToken(token), seconds });
  await audit(tx, entry('password_link.create', id, { username, expires_at: expiresAt.toISOString() }));
  // Behind the `#`: browsers send that to no server, so no log has it.
  return { url: `${origin}/password#${token}`, expiresAt };
}
