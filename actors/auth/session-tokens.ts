/** Issues session tokens (interface section 5.1; claims in proto/tokens.ts). */
import { createSecretKey, randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import type { Clock } from '../../proto/ports.ts';
import type { SessionClaims } from '../../proto/tokens.ts';

/** A new token with what the login record needs of it. */
export interface IssuedToken {
  readonly token: string;
  readonly tokenId: string;
  readonly expiresAt: Date;
}

/** Makes the issuer for `secret`; tokens live `ttlSeconds`. */
export function sessionTokens(secret: string, ttlSeconds: number, clock: Clock) {
  const key = createSecretKey(Buffer.from(secret, 'utf8'));
  return async (user: { id: string; username: string; isAdmin: boolean }): Promise<IssuedToken> => {
    const tokenId = randomUUID();
    const iat = Math.floor(clock.now() / 1000);
    const exp = iat + ttlSeconds;
    const claims: SessionClaims = {
      type: 'session',
      user_id: user.id,
      username: user.username,
      IsAdmin: user.isAdmin,
      jti: tokenId,
      iat,
      exp,
    };
    const token = await new SignJWT({ ...claims }).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(key);
    return { token, tokenId, expiresAt: new Date(exp * 1000) };
  };
}
