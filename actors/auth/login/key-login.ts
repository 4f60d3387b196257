/**
 * The second half of a login, for users who have security keys:
 *
 *   password right --> challenge token
 *   begin: token spent, state given
 *   finish: state spent, signature verified --> session
 *
 * Each arrow can be walked once: whoever fails begins again with the password.
 */
import { beginKeyLogin, finishKeyLogin } from '../../../proto/auth/security-keys.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { advanceCounter, findSecurityKey, listSecurityKeys, spendToken } from '../../../storage/auth/security-keys.ts';
import { userById } from '../../../storage/auth/users.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import type { AuthDeps } from '../deps.ts';
import { identityOf, loginSessions } from './login-sessions.ts';
import { accountDisabled } from './prove-password.ts';
import { KeyRejected, knownTransports } from './webauthn-rules.ts';
import { webauthnStates } from './webauthn-state-token.ts';

/** The handlers, for the pool of logins. */
export function keyLoginHandlers(deps: AuthDeps): readonly Handler<undefined>[] {
  const { db, log, relyingParty } = deps;
  const states = webauthnStates(deps.jwtSecret, relyingParty.id, deps.clock);
  const enter = loginSessions(deps);

  return [
    handler(beginKeyLogin, async (_: undefined, call) => {
      const { userId, tokenId, expiresAt, session } = callerOf(call);
      const user = await userById(db, userId);
      if (user?.disabledAt instanceof Date) throw accountDisabled();
      const keys = await listSecurityKeys(db, userId);
      // Without keys (they were deleted meanwhile) the password alone is asked for, so that is where to go.
      // The same for a challenge that an older password gave.
      const isOld = session?.epoch !== user?.sessionsEpoch;
      if (!(await spendToken(db, tokenId, expiresAt)) || keys.length === 0 || isOld) {
        throw new Refusal('unauthorized', { message: 'This login was continued already: log in again.' });
      }
      const { state, challenge } = await states.issue('login', userId, session?.epoch);
      const allowCredentials = keys.map(({ id, transports }) => {
        const known = knownTransports(transports);
        return { id, type: 'public-key' as const, ...(known.length === 0 ? {} : { transports: known }) };
      });
      return { options: { challenge, timeout: 60_000 as const, rpId: relyingParty.id, allowCredentials }, state };
    }),

    handler(
      finishKeyLogin,
      async (_: undefined, { body: { state: given, credential }, address, userAgent, requestId }) => {
        const state = await states.open(given, 'login');
        // Spent first: a state is good for one try.
        if (state === undefined || !(await spendToken(db, state.challenge, state.expiresAt))) {
          throw new Refusal('invalid_credential');
        }
        const user = await userById(db, state.userId);
        // The password was changed meanwhile: the one that was given is right no more.
        if (user === undefined || user.sessionsEpoch !== state.epoch) throw new Refusal('invalid_credential');
        if (user.disabledAt !== null) throw accountDisabled();

        try {
          const key = await findSecurityKey(db, user.id, credential.id);
          if (key === undefined) throw new KeyRejected('unknown_key');
          const { verifyUse } = await import('./webauthn-verify.ts');
          const counter = await verifyUse(credential, state.challenge, relyingParty, { ...key, userId: user.id });
          const entered = await enter(
            user,
            { address, userAgent, requestId },
            { factor: 'security_key', key: key.id },
            {
              first: async (tx) => {
                // Used at the same time elsewhere, or deleted: either way it is not this login's turn.
                const isTurn = await advanceCounter(tx, {
                  userId: user.id,
                  id: key.id,
                  from: key.counter,
                  to: counter,
                });
                if (!isTurn) throw new KeyRejected('counter');
              },
            },
          );
          return identityOf(entered);
        } catch (error) {
          if (!(error instanceof KeyRejected)) throw error;
          // Somebody has the password but not the key: worth an entry.
          const { id: userId, username } = user;
          const detail = { factor: 'security_key', reason: error.code };
          log.warn({ username, userId, address, reason: error.code, err: error }, 'second factor refused');
          await audit(db, { userId, username, action: 'login.refused', address, requestId, detail });
          throw new Refusal('invalid_credential', { cause: error });
        }
      },
    ),
  ];
}
