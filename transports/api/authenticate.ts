/** Proves who calls from the token. The one place where tokens are verified, for HTTP and WebSocket alike. */
import { createSecretKey } from 'node:crypto';
import { errors as joseErrors, jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Caller } from '../../proto/endpoint.ts';
import type { Clock } from '../../proto/ports.ts';
import { MAX_TOKEN_LENGTH, sessionClaimsSchema } from '../../proto/tokens.ts';

/** Verifies a token: its caller, or undefined when it proves nobody. Synchronous when the token was seen before. */
export type Authenticate = (token: string) => Caller | undefined | Promise<Caller | undefined>;

/** Tokens kept as verified; expiry is checked again at every use. */
const CACHE_SIZE = 10_000;

/**
 * Makes the verifier for `secret` (JWT_SECRET, at least 32 bytes). Only HS256 is accepted, so a token cannot choose its
 * algorithm (RFC 8725, section 3.1), and only the kind `session` opens a service.
 */
export function authenticator(secret: string, clock: Clock): Authenticate {
  const key = createSecretKey(Buffer.from(secret, 'utf8'));
  const verified = new LRUCache<string, Caller>({ max: CACHE_SIZE });

  const alive = (caller: Caller) => caller.expiresAt > clock.now() / 1000;

  const verify = async (token: string): Promise<Caller | undefined> => {
    try {
      const { payload } = await jwtVerify(token, key, { algorithms: ['HS256'], currentDate: new Date(clock.now()) });
      const claims = sessionClaimsSchema.safeParse(payload);
      if (!claims.success) return undefined;
      const { user_id, username, IsAdmin, jti, exp } = claims.data;
      const caller: Caller = {
        kind: 'session',
        userId: user_id,
        username,
        isAdmin: IsAdmin,
        tokenId: jti,
        expiresAt: exp,
      };
      if (!alive(caller)) return undefined;
      verified.set(token, caller);
      return caller;
    } catch (error) {
      if (error instanceof joseErrors.JOSEError) return undefined;
      throw error;
    }
  };

  return (token) => {
    if (token.length > MAX_TOKEN_LENGTH) return undefined;
    const known = verified.get(token);
    if (known === undefined) return verify(token);
    if (alive(known)) return known;
    verified.delete(token);
    return undefined;
  };
}

/** The token of an `Authorization: Bearer` header (RFC 6750; the scheme's case does not matter), or undefined. */
export function bearer(header: string | undefined): string | undefined {
  if (header === undefined || header.length < 8 || header.slice(0, 7).toLowerCase() !== 'bearer ') return undefined;
  return header.slice(7).trim() || undefined;
}
