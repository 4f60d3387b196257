/**
 * The actor of one user (kind `auth/user`, key: user id). It keeps the row in memory, so that asking who is logged in
 * costs no query; whoever changes the row elsewhere says so with the event `userChanged`.
 *
 *   asleep -- first message --> awake (row read) -- idle --> asleep
 *                                 | changed: row read again; gone: asleep, and asking finds nobody
 */

import { backoffMs } from '../../../lib/waiting.ts';
import { changePassword, session, updateProfile } from '../../../proto/auth/endpoints.ts';
import { clientNetworkOf, networkOf } from '../../../proto/client-network.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import { audit } from '../../../storage/audit.ts';
import { forgetNetworks } from '../../../storage/auth/attempts.ts';
import { endOtherSessions, noteSeen } from '../../../storage/auth/sessions.ts';
import { setDisplayName, setPasswordHash, type UserRow, userById } from '../../../storage/auth/users.ts';
import { fenced } from '../../../storage/fenced.ts';
import { REMOVAL } from '../../../storage/offboarding.ts';
import { dispatch } from '../../../supervision/index.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, found, handleCall, handler, handlers } from '../../service/dispatch.ts';
import type { AnsweringKind } from '../../service/parts.ts';
import type { AuthDeps } from '../deps.ts';
import { hashPassword } from '../login/passwords.ts';
import type { ProvePassword } from '../login/prove-password.ts';
import { apiTokenHandlers } from '../tokens/api-tokens.ts';
import { serviceAccountHandlers } from '../tokens/service-accounts.ts';
import { removeImages } from './images.ts';
import { AUTH_USER, type AuthUserMessage } from './placed.ts';
import { securityKeyHandlers } from './security-keys.ts';
import { sessionHandlers } from './sessions.ts';
import { forgetUser } from './user-state.ts';

/** What the actor keeps. */
interface AuthUserState {
  /** From before the row was read: what it may write by. */
  readonly lease: ShardLease;
  row: UserRow;
  /** The row was deleted: whoever still asks is told so. */
  gone: boolean;
  /** When sessions were noted last as seen, Unix ms, by their tokens' ids. */
  readonly seen: Map<string, number>;
}

/** How often it is written that a session is in use. */
const NOTE_EVERY_MS = 60_000;
/** Sessions whose last note is remembered. */
const MAX_SEEN = 200;

const SLEEP_AFTER_MS = 60_000;

/** Between two tries to forget a user who has something left. */
const FORGET_PAUSE = { minMs: 1000, maxMs: 30_000 };

/** The kind, for the service's tree. */
export function userKind(deps: AuthDeps, provePassword: ProvePassword): AnsweringKind<AuthUserMessage, AuthUserState> {
  const { db } = deps;

  const table = handlers<AuthUserState>(
    handler(session, (state: AuthUserState, call) => {
      const { isAdmin, tokenId, expiresAt } = callerOf(call);
      note(state, tokenId);
      return {
        username: state.row.username,
        display_name: state.row.displayName,
        user_id: state.row.id,
        is_admin: isAdmin,
        expires_at: new Date(expiresAt * 1000).toISOString(),
      };
    }),
    handler(updateProfile, async (state: AuthUserState, call) => {
      const { display_name } = call.body;
      state.row = await fenced(db, state.lease, async (tx) => {
        const row = await setDisplayName(tx, state.row.id, display_name);
        // As it was: nothing to write down.
        if (row === undefined) return found(await userById(tx, state.row.id), () => new Refusal('unauthorized'));
        await audit(tx, auditEntry(call, 'profile.update', row.id, { display_name }));
        return row;
      });
      return { username: state.row.username, display_name: state.row.displayName, user_id: state.row.id };
    }),
    handler(changePassword, async (state: AuthUserState, call) => {
      const { body, address, requestId } = call;
      const { id, username } = state.row;
      if (body.new_password.toLowerCase() === username)
        throw new Refusal('invalid_request', { message: 'The new password must not be the username.' });
      const proven = await provePassword({
        username,
        password: body.current_password,
        address,
        requestId,
        purpose: 'password',
      }).catch(async (error: unknown) => {
        if (!(error instanceof Refusal) || error.code !== 'invalid_credentials') throw error;
        found(await userById(db, id), () => new Refusal('unauthorized'));
        throw new Refusal('wrong_password');
      });
      // The name was given to somebody new meanwhile.
      if (proven.id !== id) throw new Refusal('unauthorized');
      const passwordHash = await hashPassword(body.new_password, clientNetworkOf(address));
      state.row = await fenced(db, state.lease, async (tx) => {
        // A password link or an administrator may have been faster than the hash.
        if ((await endOtherSessions(tx, id, callerOf(call))) === undefined) throw new Refusal('unauthorized');
        const row = await setPasswordHash(tx, id, passwordHash, proven.passwordHash);
        if (row === undefined) throw new Refusal('wrong_password');
        await forgetNetworks(tx, id, networkOf(address));
        await audit(tx, auditEntry(call, 'password.change', id));
        return row;
      });
      deps.tokensChanged({ kind: 'user', id });
      deps.log.info({ userId: state.row.id, address }, 'password changed');
      return undefined;
    }),
    ...sessionHandlers(deps),
    ...apiTokenHandlers(deps),
    ...serviceAccountHandlers(deps),
    ...securityKeyHandlers(deps, provePassword),
  );

  /** Notes that a session is in use. Nobody waits for it, and a note that is lost costs a minute. */
  function note({ seen }: AuthUserState, tokenId: string): void {
    const now = deps.clock.now();
    if (now - (seen.get(tokenId) ?? 0) < NOTE_EVERY_MS) return;
    if (seen.size >= MAX_SEEN) seen.clear();
    seen.set(tokenId, now);
    noteSeen(db, tokenId).catch((err: unknown) => deps.log.debug({ err }, 'the last use of a session was not noted'));
  }

  /** Ends the removal of a user, if nothing is left that another service has to end; else tries again later. */
  async function forget(state: AuthUserState, tries: number): Promise<void> {
    await removeImages(deps, state);
    const left = await forgetUser(db, state.row.id);
    if (left === undefined) return;
    const at = deps.clock.now() + backoffMs(tries, FORGET_PAUSE);
    const wanted = { name: REMOVAL.name, at, message: tries + 1 };
    await deps.placement.timers.set(AUTH_USER, state.row.id, wanted, state.lease);
  }

  return {
    kind: AUTH_USER.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: async (id) => {
      const lease = deps.placement.lease(AUTH_USER, id);
      const row = await userById(db, id);
      return row === undefined ? undefined : { lease, row, gone: false, seen: new Map() };
    },
    handle: (state, message, ctx) => {
      if (message.type === 'call') {
        if (state.gone) {
          dispatch(message.replyTo, { refused: new Refusal('unauthorized') });
          return state;
        }
        const answered = handleCall(table, state, message);
        return answered === undefined ? state : answered.then(() => state);
      }
      if (message.type === 'forget') {
        return forget(state, message.tries).then(() => {
          dispatch(message.done, 'done');
          return state;
        });
      }
      return userById(db, state.row.id).then((row) => {
        if (row !== undefined) state.row = row;
        else {
          state.gone = true;
          ctx.sleep();
        }
        return state;
      });
    },
  };
}
