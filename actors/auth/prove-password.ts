/** Whether somebody is the user they say they are, by password: counted and throttled alike wherever a password is given. */
import { usernameSchema } from '../../proto/auth.ts';
import { Refusal } from '../../proto/errors.ts';
import { chargeAttempt, clearAttempts } from '../../storage/auth/attempts.ts';
import { rehash, type UserRow, userByName } from '../../storage/auth/users.ts';
import type { AuthDeps } from './deps.ts';
import { hashPassword, needsRehash, verifyNobody, verifyPassword } from './passwords.ts';

/** What somebody claims, and from where. */
export interface Claim {
  readonly username: string;
  readonly password: string;
  readonly address: string;
  readonly requestId: string;
  /** What for. */
  readonly purpose: 'login' | 'registry_token';
}

/**
 * The user whose password it is; the user's failures from this address are forgotten then, and an old hash is replaced. Refuses
 * `invalid_credentials` (the same, and as slow, for an unknown user) and `too_many_attempts` (design.md, section 9).
 */
export type ProvePassword = (claim: Claim) => Promise<UserRow>;

/** Makes the one that proves passwords. */
export function passwordProver({ db, log }: Pick<AuthDeps, 'db' | 'log'>): ProvePassword {
  return async (claim) => {
    const { password, address, requestId, purpose } = claim;
    // A name nobody can have is counted under one name: it must not fill the table with whatever was typed.
    const username = usernameSchema.safeParse(claim.username).success ? claim.username : '';
    const attempt = await chargeAttempt(db, username, address);
    if (!attempt.allowed) throw new Refusal('too_many_attempts', { retryAfter: attempt.wait });
    const user = username === '' ? undefined : await userByName(db, username);
    const right = user === undefined ? await verifyNobody(password) : await verifyPassword(user.passwordHash, password);
    if (user === undefined || !right) {
      log.info({ username, address, requestId, purpose }, 'login refused');
      throw new Refusal('invalid_credentials');
    }
    await clearAttempts(db, username, address);
    if (needsRehash(user.passwordHash)) await rehash(db, user.id, user.passwordHash, await hashPassword(password));
    return user;
  };
}
