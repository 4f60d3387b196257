/** A user's own logins: which there are, prolonging the one that asks, and ending others. */
import {
  endOtherSessions,
  endSession,
  listSessions,
  MAX_SESSION_DAYS,
  renewSession,
} from '../../../proto/auth/endpoints.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import { audit } from '../../../storage/audit.ts';
import {
  endOtherSessions as endOthers,
  endSession as endStored,
  prolongSession,
  listSessions as sessionsOf,
} from '../../../storage/auth/sessions.ts';
import type { UserRow } from '../../../storage/auth/users.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import type { AuthDeps } from '../deps.ts';
import { sessionTokens } from '../tokens/issue-tokens.ts';

/** Whose sessions they are. */
interface SessionOwner {
  readonly lease: ShardLease;
  readonly row: UserRow;
}

const seconds = (date: Date) => Math.floor(date.getTime() / 1000);

/** The handlers, for the user's actor. */
export function sessionHandlers(deps: AuthDeps): readonly Handler<SessionOwner>[] {
  const { db, clock } = deps;
  const issue = sessionTokens(deps.jwtSecret, deps.sessionTtlSeconds, clock);

  return [
    handler(listSessions, async (state: SessionOwner, call) =>
      (await sessionsOf(db, state.row.id)).map((record) => ({
        id: record.id,
        ip_address: record.ipAddress,
        created_at: seconds(record.createdAt),
        is_current: record.tokenId === callerOf(call).tokenId,
        user_agent: record.userAgent,
        last_seen_at: record.lastSeenAt === null ? null : seconds(record.lastSeenAt),
      })),
    ),
    handler(renewSession, async (state: SessionOwner, call) => {
      const { tokenId, isAdmin, session } = callerOf(call);
      const wanted = new Date(clock.now() + deps.sessionTtlSeconds * 1000);
      const until = await fenced(db, state.lease, (tx) => prolongSession(tx, tokenId, wanted, MAX_SESSION_DAYS));
      if (until === undefined)
        throw new Refusal('conflict', { message: 'This session is not in your list any more: log in again.' });
      const { id, username } = state.row;
      const prolongs = {
        tokenId,
        issuedAt: session?.issuedAt ?? seconds(new Date(clock.now())),
        expiresAt: seconds(until),
      };
      const { token, expiresAt } = await issue({
        id,
        username,
        isAdmin,
        sessionsEpoch: session?.epoch ?? state.row.sessionsEpoch,
        prolongs,
      });
      return { token, expires_at: expiresAt.toISOString() };
    }),
    handler(endSession, async (state: SessionOwner, call) => {
      const { id } = state.row;
      await fenced(db, state.lease, async (tx) => {
        if ((await endStored(tx, id, call.params)) === undefined)
          throw new Refusal('not_found', { message: 'You have no session with this id.' });
        await audit(tx, auditEntry(call, 'session.end', String(call.params.id)));
      });
      deps.tokensChanged({ kind: 'user', id });
      return undefined;
    }),
    handler(endOtherSessions, async (state: SessionOwner, call) => {
      const { id } = state.row;
      const ended = await fenced(db, state.lease, async (tx) => {
        const others = await endOthers(tx, id, callerOf(call));
        // A password link or an administrator ended this one meanwhile.
        if (others === undefined) throw new Refusal('unauthorized');
        const { sessions, isRepeated } = others;
        // No limit counts this call, and entries stay.
        if (!isRepeated) await audit(tx, auditEntry(call, 'session.end_others', id, { sessions }));
        return sessions;
      });
      deps.tokensChanged({ kind: 'user', id });
      return { ended };
    }),
  ];
}
