/** Issues tokens (claims in proto/auth/tokens.ts). */
import { createHmac, randomUUID } from 'node:crypto';
import { type SharedSecret, tokenKeyring } from '../../../proto/auth/shared-secret.ts';
import {
  API_TOKEN_PREFIX,
  type ApiTokenClaims,
  CHALLENGE_SECONDS,
  type ChallengeClaims,
  type SessionClaims,
} from '../../../proto/auth/tokens.ts';
import type { SessionVia } from '../../../proto/endpoint.ts';
import type { Clock } from '../../../proto/ports/clock.ts';

/** A new token with what the login record needs of it. */
interface IssuedToken {
  readonly token: string;
  readonly tokenId: string;
  readonly expiresAt: Date;
}

/** Makes the issuer of session tokens for `secret`; they live `ttlSeconds`. */
export function sessionTokens(secret: SharedSecret, ttlSeconds: number, clock: Clock) {
  const sign = signer(secret);
  return async (user: {
    id: string;
    username: string;
    isAdmin: boolean;
    sessionsEpoch?: number;
    /** Of a session that is prolonged: its id, when it began and when it is to end, Unix seconds. */
    prolongs?: { readonly tokenId: string; readonly issuedAt: number; readonly expiresAt: number };
    via?: SessionVia | undefined;
  }): Promise<IssuedToken> => {
    const tokenId = user.prolongs?.tokenId ?? randomUUID();
    const iat = user.prolongs?.issuedAt ?? Math.floor(clock.now() / 1000);
    const exp = user.prolongs?.expiresAt ?? iat + ttlSeconds;
    const claims = {
      type: 'session',
      user_id: user.id,
      username: user.username,
      IsAdmin: user.isAdmin,
      jti: tokenId,
      iat,
      exp,
      epoch: user.sessionsEpoch ?? 0,
      ...(user.via === undefined ? {} : { via: user.via }),
    } satisfies SessionClaims;
    return { token: sign(claims), tokenId, expiresAt: new Date(exp * 1000) };
  };
}

/** Makes the issuer of challenge tokens: what stands between the password and the security key. */
export function challengeTokens(secret: SharedSecret, clock: Clock) {
  const sign = signer(secret);
  return async (user: { id: string; username: string; sessionsEpoch?: number }): Promise<string> => {
    const iat = Math.floor(clock.now() / 1000);
    const claims = {
      type: 'challenge',
      user_id: user.id,
      username: user.username,
      jti: randomUUID(),
      iat,
      exp: iat + CHALLENGE_SECONDS,
      epoch: user.sessionsEpoch ?? 0,
    } satisfies ChallengeClaims;
    return sign(claims);
  };
}

/**
 * Makes the issuer of API tokens. What one may do is not in it: storage says so at each use. `expiresAt`: unix seconds.
 */
export function apiTokens(secret: SharedSecret, clock: Clock) {
  const sign = signer(secret);
  return async (of: { tokenId: string; userId: string; expiresAt: number | undefined }): Promise<string> => {
    const claims = {
      type: 'api_token',
      user_id: of.userId,
      jti: of.tokenId,
      iat: Math.floor(clock.now() / 1000),
      ...(of.expiresAt === undefined ? {} : { exp: of.expiresAt }),
    } satisfies ApiTokenClaims;
    return API_TOKEN_PREFIX + sign(claims);
  };
}

/**
 * Signs with HS256 (RFC 7515, appendix A.1; RFC 7518, section 3.2). At once and here: a library that signs in the
 * thread pool stands between password hashes there, and waking a thread costs fifty times the signature.
 */
function signer(secret: SharedSecret) {
  const [{ id: kid, key }] = tokenKeyring(secret);
  const header = Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'JWT', kid })).toString('base64url');
  return (claims: object): string => {
    const signed = `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
    return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
  };
}
