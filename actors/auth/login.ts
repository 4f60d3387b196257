/** The login desk: stateless, since everything it must remember (attempts, sessions) is counted in SQL for all nodes. */
import { checkToken } from '../../proto/api-tokens.ts';
import { login, logout } from '../../proto/auth.ts';
import { Refusal } from '../../proto/errors.ts';
import { audit } from '../../storage/audit.ts';
import { livingApiToken } from '../../storage/auth/api-tokens.ts';
import { rememberNetwork } from '../../storage/auth/login-networks.ts';
import { insertSession } from '../../storage/auth/sessions.ts';
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
      await deps.db.tx(async (tx) => {
        await insertSession(tx, { tokenId, userId, ipAddress: address, expiresAt });
        await rememberNetwork(tx, userId, networkOf(address));
        await audit(tx, { userId, username, action: 'login', target: userId, address, requestId });
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
