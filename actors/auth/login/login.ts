/** A stateless pool of logins: everything it must remember (attempts, sessions) is counted in SQL for all nodes. */
import { checkToken } from '../../../proto/auth/api-tokens.ts';
import { login, logout } from '../../../proto/auth/endpoints.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { livingApiToken } from '../../../storage/auth/api-tokens.ts';
import { endSession } from '../../../storage/auth/sessions.ts';
import { auditEntry } from '../../service/audit.ts';
import { handler, handlers } from '../../service/dispatch.ts';
import type { AuthDeps } from '../deps.ts';
import { registryHandlers } from '../registry/registry.ts';
import { challengeTokens } from '../tokens/issue-tokens.ts';
import { deviceHandlers } from './device-login.ts';
import { keyLoginHandlers } from './key-login.ts';
import { identityOf, loginSessions } from './login-sessions.ts';
import { passwordLinkHandlers } from './password-link.ts';
import type { PlaceLimit } from './place-limit.ts';
import type { PasswordProver } from './prove-password.ts';

/** The handlers of the pool. */
export function loginHandlers(deps: AuthDeps, { prove, proveAndEnter }: PasswordProver, places: PlaceLimit) {
  const enter = loginSessions(deps);
  const challenge = challengeTokens(deps.jwtSecret, deps.clock);
  return handlers(
    handler(login, (_: undefined, { body, address, userAgent, requestId }) =>
      proveAndEnter({ ...body, address, requestId, purpose: 'login' }, async ({ user, hasSecurityKeys, charge }) => {
        if (hasSecurityKeys) {
          await charge.succeeded();
          const { id, username, sessionsEpoch } = user;
          deps.log.info({ username, userId: id, address }, 'second factor asked for');
          return { requires_2fa: true as const, challenge_token: await challenge({ id, username, sessionsEpoch }) };
        }
        const { forgets: forgives } = charge;
        if (forgives === undefined) await charge.succeeded();
        const from = { address, userAgent, requestId };
        return identityOf(await enter(user, from, { factor: 'password' }, forgives === undefined ? {} : { forgives }));
      }),
    ),
    ...keyLoginHandlers(deps),
    ...deviceHandlers(deps),
    ...passwordLinkHandlers(deps, places),
    handler(logout, async (_: undefined, call) => {
      const { caller } = call;
      if (caller === undefined) return { status: 'ok' as const };
      const { userId, tokenId } = caller;
      await deps.db.tx(async (tx) => {
        if ((await endSession(tx, userId, { tokenId })) !== undefined)
          await audit(tx, auditEntry(call, 'logout', userId));
      });
      deps.tokensChanged({ kind: 'user', id: userId });
      return { status: 'ok' as const };
    }),
    handler(checkToken, async (_: undefined, { params }) => {
      const token = await livingApiToken(deps.db, params.id);
      if (token === undefined) throw new Refusal('not_found', { message: 'There is no valid token with this id.' });
      return { status: 'valid' as const, ...(token.serviceAccountId === null ? {} : { scopes: token.scopes }) };
    }),
    ...registryHandlers(deps, prove),
  );
}
