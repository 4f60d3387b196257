/**
 * What every login ends with, whatever proved who it is: a session token, its record, and an entry in the audit trail.
 */
import type { Identity } from '../../../proto/auth/endpoints.ts';
import { networkOf } from '../../../proto/client-network.ts';
import type { Call, SessionVia } from '../../../proto/endpoint.ts';
import { recordLogin } from '../../../storage/auth/sessions.ts';
import type { UserRow } from '../../../storage/auth/users.ts';
import type { Queries } from '../../../storage/db.ts';
import type { AuthDeps } from '../deps.ts';
import { sessionTokens } from '../tokens/issue-tokens.ts';

/** The last thing that was proven: the password, after it a security key (its credential id), or by another session. */
type Factor =
  | { readonly factor: 'password' }
  | { readonly factor: 'security_key'; readonly key: string }
  | { readonly factor: 'device'; readonly name: string };

/** A session that has begun. */
interface Entered extends Identity {
  readonly expiresAt: Date;
}

/** What a login answers. */
export function identityOf({ expiresAt: _, ...identity }: Entered): Identity {
  return identity;
}

/** Makes the function that begins sessions. */
export function loginSessions({ db, log, jwtSecret, sessionTtlSeconds, clock, adminUsername }: AuthDeps) {
  const issue = sessionTokens(jwtSecret, sessionTtlSeconds, clock);

  /**
   * Begins a session of `user` and returns what the login answers. `first` runs in the transaction that records it:
   * when it rejects, there is no session. `forgives`: the count of failed attempts that goes with it.
   * `via`: what limits the session.
   */
  return async (
    user: UserRow,
    { address, userAgent = '', requestId }: Pick<Call, 'address' | 'userAgent' | 'requestId'>,
    factor: Factor,
    {
      first,
      forgives = null,
      via,
    }: { first?: (tx: Queries) => Promise<void>; forgives?: string | null; via?: SessionVia | undefined } = {},
  ): Promise<Entered> => {
    const { id: userId, username, sessionsEpoch } = user;
    const isAdmin = username === adminUsername;
    const { token, tokenId, expiresAt } = await issue({ id: userId, username, isAdmin, sessionsEpoch, via });
    const login = {
      tokenId,
      userId,
      username,
      address,
      userAgent,
      network: networkOf(address),
      expiresAt,
      requestId,
      forgives,
      detail: factor,
    };
    if (first === undefined) await recordLogin(db, login);
    else {
      await db.tx(async (tx) => {
        await first(tx);
        await recordLogin(tx, login);
      });
    }
    log.info({ username, userId, address, factor: factor.factor }, 'logged in');
    return { username, display_name: user.displayName, user_id: userId, is_admin: isAdmin, token, expiresAt };
  };
}
