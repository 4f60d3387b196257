/**
 * States: what the service must remember between begin and finish of a ceremony, signed and left with the browser. A
 * state names its purpose, its user and the RP id, lives five minutes, and is good for one finish.
 */
import { randomBytes } from 'node:crypto';
import { SignJWT } from 'jose';
import { z } from 'zod';
import { type SharedSecret, tokenKeyring, verifiedClaims } from '../../../proto/auth/shared-secret.ts';
import { CHALLENGE_SECONDS } from '../../../proto/auth/tokens.ts';
import { idSchema } from '../../../proto/ids.ts';
import type { Clock } from '../../../proto/ports/clock.ts';

/** Which ceremony a state belongs to. */
type Purpose = 'add' | 'login';

/** What a state says. */
interface WebauthnState {
  readonly userId: string;
  /**
   * What the authenticator is to sign: 32 random bytes, base64url. It is the state's id too, so that both are spent
   * together.
   */
  readonly challenge: string;
  /** Unix seconds. */
  readonly expiresAt: number;
  /** The user's, when it began. */
  readonly epoch: number;
}

/** The header's `typ`: no other token of ours has it (RFC 8725, section 3.11). */
const TYPE = 'wa-state';
const CHALLENGE_BYTES = 32;

const claimsSchema = z.object({
  purpose: z.string(),
  sub: idSchema,
  jti: z.string().length(43),
  exp: z.int(),
  epoch: z.int().default(0),
});

/** Makes the issuer and the reader of states for one RP id. */
export function webauthnStates(secret: SharedSecret, rpId: string, clock: Clock) {
  const keyring = tokenKeyring(secret);
  const [{ id: kid, key }] = keyring;

  return {
    /** A new state with its challenge. */
    issue: async (purpose: Purpose, userId: string, epoch = 0): Promise<{ state: string; challenge: string }> => {
      const challenge = randomBytes(CHALLENGE_BYTES).toString('base64url');
      const iat = Math.floor(clock.now() / 1000);
      const claims = { purpose, sub: userId, jti: challenge, aud: rpId, iat, exp: iat + CHALLENGE_SECONDS, epoch };
      const state = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: TYPE, kid }).sign(key);
      return { state, challenge };
    },

    /** What a state says, spent or not; undefined when it is not ours, is for something else, or has expired. */
    open: async (state: string, purpose: Purpose): Promise<WebauthnState | undefined> => {
      const payload = await verifiedClaims(state, keyring, {
        typ: TYPE,
        audience: rpId,
        currentDate: new Date(clock.now()),
      });
      const claims = claimsSchema.safeParse(payload);
      if (!claims.success || claims.data.purpose !== purpose) return undefined;
      const { sub: userId, jti: challenge, exp: expiresAt, epoch } = claims.data;
      return { userId, challenge, expiresAt, epoch };
    },
  };
}
