/** The login desk: stateless, since everything it must remember (attempts, sessions) is counted in SQL for all nodes. */
import { checkToken } from '../../proto/api-tokens.ts';
import { login, logout, usernameSchema } from '../../proto/auth.ts';
import { Refusal } from '../../proto/errors.ts';
import { livingApiToken } from '../../storage/auth/api-tokens.ts';
import { chargeAttempt, clearAttempts } from '../../storage/auth/attempts.ts';
import { insertSession } from '../../storage/auth/sessions.ts';
import { rehash, userByName } from '../../storage/auth/users.ts';
import { handlers, on } from '../door.ts';
import type { AuthDeps } from './deps.ts';
import { sessionTokens } from './issue-tokens.ts';
import { hashPassword, needsRehash, verifyNobody, verifyPassword } from './passwords.ts';

/** The desk's handlers. */
export function loginHandlers(deps: AuthDeps) {
  const issue = sessionTokens(deps.jwtSecret, deps.sessionTtlSeconds, deps.clock);
  return handlers(
    on(login, async (_desk: undefined, { body, address }) => {
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
      const isAdmin = user.username === deps.adminUsername;
      const { token, tokenId, expiresAt } = await issue({ id: user.id, username: user.username, isAdmin });
      await insertSession(deps.db, { tokenId, userId: user.id, ipAddress: address, expiresAt });
      deps.log.info({ username, userId: user.id, address }, 'logged in');
      return { username: user.username, display_name: user.displayName, user_id: user.id, is_admin: isAdmin, token };
    }),
    on(logout, () => ({ status: 'ok' as const })),
    on(checkToken, async (_desk: undefined, { params }) => {
      const token = await livingApiToken(deps.db, params.id);
      if (token === undefined) throw new Refusal('not_found', { message: 'There is no valid token with this id.' });
      return { status: 'valid' as const, ...(token.serviceAccountId === null ? {} : { scopes: token.scopes }) };
    }),
  );
}
