/** The login desk: stateless, since everything it must remember (attempts, sessions) is counted in SQL for all nodes. */
import { checkToken } from '../../proto/api-tokens.ts';
import { login, logout } from '../../proto/auth.ts';
import { Refusal } from '../../proto/errors.ts';
import { livingApiToken } from '../../storage/auth/api-tokens.ts';
import { recordLogin } from '../../storage/auth/sessions.ts';
import { handlers, on } from '../door.ts';
import type { AuthDeps } from './deps.ts';
import { sessionTokens } from './issue-tokens.ts';
import type { ProvePassword } from './prove-password.ts';
import { networkOf } from './throttle-rules.ts';

/** The desk's handlers. */
export function loginHandlers(deps: AuthDeps, provePassword: ProvePassword) {
  const issue = sessionTokens(deps.jwtSecret, deps.sessionTtlSeconds, deps.clock);
  return handlers(
    on(login, async (_desk: undefined, { body, address, requestId }) => {
      const user = await provePassword({ ...body, address, requestId, purpose: 'login' });
      const { id: userId, username } = user;
      const isAdmin = username === deps.adminUsername;
      const { token, tokenId, expiresAt } = await issue({ id: userId, username, isAdmin });
      await recordLogin(deps.db, {
        tokenId,
        userId,
        username,
        address,
        network: networkOf(address),
        expiresAt,
        requestId,
      });
      deps.log.info({ username, userId, address }, 'logged in');
      return { username, display_name: user.displayName, user_id: userId, is_admin: isAdmin, token };
    }),
    on(logout, () => ({ status: 'ok' as const })),
    on(checkToken, async (_desk: undefined, { params }) => {
      const token = await livingApiToken(deps.db, params.id);
      if (token === undefined) throw new Refusal('not_found', { message: 'There is no valid token with this id.' });
      return { status: 'valid' as const, ...(token.serviceAccountId === null ? {} : { scopes: token.scopes }) };
    }),
  );
}
