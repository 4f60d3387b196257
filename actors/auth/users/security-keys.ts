/** The security keys of a user: what the user's actor answers about them. Having one turns the second factor on. */
import {
  beginAddKey,
  deleteKey,
  finishAddKey,
  isRecentLogin,
  listKeys,
  MAX_SECURITY_KEYS,
  RECENT_LOGIN_SECONDS,
  renameKey,
} from '../../../proto/auth/security-keys.ts';
import type { Call } from '../../../proto/endpoint.ts';
import { ERRORS, Refusal } from '../../../proto/errors.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import { audit } from '../../../storage/audit.ts';
import {
  countSecurityKeys,
  deleteSecurityKey,
  insertSecurityKey,
  listSecurityKeys,
  renameSecurityKey,
  spendToken,
} from '../../../storage/auth/security-keys.ts';
import { holdUser, userById } from '../../../storage/auth/users.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, found, type Handler, handler } from '../../service/dispatch.ts';
import type { LeaseHolder } from '../../service/placement.ts';
import type { AuthDeps } from '../deps.ts';
import type { ProvePassword } from '../login/prove-password.ts';
import { ALGORITHMS, authenticatorType, KeyRejected, knownTransports, userHandleOf } from '../login/webauthn-rules.ts';
import { webauthnStates } from '../login/webauthn-state-token.ts';
import { unixSeconds } from '../tokens/api-tokens.ts';

/** How browsers name us. */
const RP_NAME = 'Troupe';

/** The handlers. */
export function securityKeyHandlers(
  { db, log, jwtSecret, clock, relyingParty }: AuthDeps,
  provePassword: ProvePassword,
): readonly Handler<LeaseHolder>[] {
  const proven = freshProof({ clock, provePassword });
  const states = webauthnStates(jwtSecret, relyingParty.id, clock);

  return [
    handler(listKeys, async (_: LeaseHolder, call) => ({
      keys: (await listSecurityKeys(db, callerOf(call).userId)).map((row) => ({
        id: row.id,
        name: row.name,
        authenticator_type: row.authenticatorType,
        created_at: unixSeconds(row.createdAt),
      })),
    })),

    handler(beginAddKey, async (_: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      const user = found(await userById(db, userId), () => new Refusal('unauthorized'));
      if ((await countSecurityKeys(db, userId)) >= MAX_SECURITY_KEYS) throw tooMany();
      const { state, challenge } = await states.issue('add', userId);
      return {
        options: {
          challenge,
          rp: { name: RP_NAME, id: relyingParty.id },
          user: { id: userHandleOf(userId), name: user.username, displayName: user.displayName },
          pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key' as const, alg })),
          timeout: 60_000 as const,
        },
        state,
      };
    }),

    handler(finishAddKey, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      const { state: given, credential, name, password } = call.body;
      // Before the state is spent: who has to prove more sends the same once more.
      await proven(call, password);
      const state = await states.open(given, 'add');
      // Somebody else's state is not spent: it is still good for them.
      if (state === undefined || state.userId !== userId) throw notVerified();
      const { verifyNewKey } = await import('../login/webauthn-verify.ts');
      const made = await verifyNewKey(credential, state.challenge, relyingParty).catch((error: unknown) => {
        if (!(error instanceof KeyRejected)) throw error;
        return error;
      });
      // The state is spent whatever is refused, so refusals do not roll back; a fenced write does, and the owner begins
      // anew.
      const refusal = await fenced(db, lease, async (tx): Promise<Refusal | undefined> => {
        if (!(await spendToken(tx, state.challenge, state.expiresAt))) return notVerified();
        if (made instanceof KeyRejected) return notVerified(made);
        if (!(await holdUser(tx, userId))) return new Refusal('unauthorized');
        if ((await countSecurityKeys(tx, userId)) >= MAX_SECURITY_KEYS) return tooMany();
        const key = {
          ...made,
          name,
          transports: knownTransports(credential.response.transports),
          authenticatorType: authenticatorType(credential.authenticatorAttachment),
        };
        if (!(await insertSecurityKey(tx, userId, key))) {
          return new Refusal('conflict', { message: 'This security key is registered already.' });
        }
        const { userVerified: user_verified, authenticatorType: authenticator_type } = key;
        await audit(tx, auditEntry(call, 'security_key.add', key.id, { name, authenticator_type, user_verified }));
        return undefined;
      });
      if (refusal !== undefined) {
        if (made instanceof KeyRejected) {
          log.info({ userId, address: call.address, reason: made.code, err: made }, 'new security key refused');
        }
        throw refusal;
      }
      log.info({ userId, address: call.address }, 'security key added');
      return undefined;
    }),

    handler(deleteKey, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      await proven(call, call.body.password);
      await fenced(db, lease, async (tx) => {
        const name = found(await deleteSecurityKey(tx, userId, call.body.id), noKey);
        await audit(tx, auditEntry(call, 'security_key.delete', call.body.id, { name }));
      });
      log.info({ userId, address: call.address }, 'security key deleted');
      return undefined;
    }),

    handler(renameKey, async ({ lease }: LeaseHolder, call) => {
      const { id, name } = call.body;
      await fenced(db, lease, async (tx) => {
        const renamed = found(await renameSecurityKey(tx, callerOf(call).userId, id, name), noKey);
        if (renamed) await audit(tx, auditEntry(call, 'security_key.rename', id, { name }));
      });
      return undefined;
    }),
  ];
}

/** Not a 401: the caller is logged in, and a client would throw its token away. */
function notVerified(cause?: unknown): Refusal {
  return new Refusal('invalid_request', { message: ERRORS.invalid_credential.text, cause });
}

function noKey(): Refusal {
  return new Refusal('not_found', { message: 'You have no security key with this id.' });
}

function tooMany(): Refusal {
  return new Refusal('limit_reached', {
    message: `You can have at most ${MAX_SECURITY_KEYS} security keys: delete one first.`,
  });
}

/**
 * Makes the function that asks for it: a login of the last ten minutes, or the password. It refuses `proof_needed` when
 * there is neither, `wrong_password`, and `too_many_attempts` as a login does.
 */
function freshProof({ clock, provePassword }: { clock: Clock; provePassword: ProvePassword }) {
  return async (call: Call, password: string | undefined) => {
    const caller = callerOf(call);
    const { userId, username } = caller;
    if (password === undefined) {
      if (isRecentLogin(caller, clock.now())) return;
      throw new Refusal('proof_needed', {
        message:
          `Your login is older than ${RECENT_LOGIN_SECONDS / 60} minutes: send your password as "password" in this ` +
          'body, too, or log in again.',
      });
    }
    const { address, requestId } = call;
    const proven = await provePassword({ username, password, address, requestId, purpose: 'security_key' }).catch(
      (error: unknown) => {
        throw error instanceof Refusal && error.code === 'invalid_credentials' ? new Refusal('wrong_password') : error;
      },
    );
    // The name was given to somebody new meanwhile.
    if (proven.id !== userId) throw new Refusal('unauthorized');
  };
}
