/** The login desk: stateless, since everything it must remember (attempts, sessions) is counted in SQL for all nodes. */
import { checkToken } from '../../proto/api-tokens.ts';
import { login, logout, usernameSchema } from '../../proto/auth.ts';
import { Refusal } from '../../proto/errors.ts';
import { livingApiToken } from '../../storage/auth/api-tokens.ts';
import { chargeAttempt, clearAttempts } from '../../storage/auth/attempts.ts';
import { countSecurityKeys } from '../../storage/auth/security-keys.ts';
import { rehash, userByName } from '../../storage/auth/users.ts';
import { handlers, on } from '../door.ts';
import type { AuthDeps } from './deps.ts';
import { challengeTokens } from './issue-tokens.ts';
import { keyLoginHandlers } from './key-login.ts';
import { loginSessions } from './login-sessions.ts';
import { hashPassword, needsRehash, verifyNobody, verifyPassword } from './passwords.ts';

/** The desk's handlers. */
export function loginHandlers(deps: AuthDeps) {
  const enter = loginSessions(deps);
  const challenge = challengeTokens(deps.jwtSecret, deps.clock);
  return handlers(
    on(login, async (_desk: undefined, { body, address, requestId }) => {
      // A name nobody can have is counted under one name: it must not fill the table with whatever was typed.
      const username = usernameSchema.safeParse(body.username).success ? body.username : '';
      const attempt = await chargeAttempt(deps.db, username, address);
      if (!attempt.allowed) throw new Refusal('too_many_attempts', { retryAfter: attempt.wait });
      const user = username === '' ? undefined : await userByName(deps.db, username);
      const right =
        user === undefined ? await verifyNobody(body.password) : await verifyPassword(user.passwordHash, body.password);
      if (user === undefined || !right) {
        deps.log.info({ username, address }, 'login refused');
        throw new Refusal('invalid_credentials');
      }
      await clearAttempts(deps.db, username, address);
      if (needsRehash(user.passwordHash))
        await rehash(deps.db, user.id, user.passwordHash, await hashPassword(body.password));
      if ((await countSecurityKeys(deps.db, user.id)) > 0) {
        deps.log.info({ username, userId: user.id, address }, 'second factor asked for');
        return { requires_2fa: true as const, challenge_token: await challenge({ id: user.id, username }) };
      }
      return enter(user, { address, requestId }, { factor: 'password' });
    }),
    ...keyLoginHandlers(deps),
    on(logout, () => ({ status: 'ok' as const })),
    on(checkToken, async (_desk: undefined, { params }) => {
      const token = await livingApiToken(deps.db, params.id);
      if (token === undefined) throw new Refusal('not_found', { message: 'There is no valid token with this id.' });
      return { status: 'valid' as const, ...(token.serviceAccountId === null ? {} : { scopes: token.scopes }) };
    }),
  );
}
