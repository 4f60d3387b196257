/** A user's sessions, for the user's actor: the list, their renewal, and their end. */
import { endOtherSessions, endSession, listSessions, renewSession } from '../../../proto/auth/sessions.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import { audit } from '../../../storage/audit.ts';
import {
  endSession as end,
  endSessions,
  extendSession,
  sessionById,
  listSessions as sessionsOf,
} from '../../../storage/auth/sessions.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import type { AuthDeps } from '../deps.ts';
import { renewedTokens } from '../tokens/issue-tokens.ts';

/** What they need of the user's actor. */
interface OfUser {
  readonly lease: ShardLease;
  readonly row: { readonly id: string; readonly username: string };
}

/** The handlers. */
export function sessionHandlers(deps: AuthDeps): readonly Handler<OfUser>[] {
  const { db } = deps;
  const renew = renewedTokens(deps.jwtSecret, deps.sessionTtlSeconds, deps.clock);
  return [
    handler(listSessions, async ({ row }: OfUser, call) =>
      (await sessionsOf(db, row.id)).map((record) => ({
        id: record.id,
        ip_address: record.ipAddress,
        created_at: seconds(record.createdAt),
        is_current: record.tokenId === callerOf(call).tokenId,
        user_agent: record.userAgent,
        last_seen_at: seconds(record.lastSeenAt),
      })),
    ),
    handler(renewSession, async ({ row, lease }: OfUser, call) => {
      const { token, tokenId, expiresAt } = renew(callerOf(call), row.username);
      await fenced(db, lease, async (tx) => {
        // Past the bound of records it is not known any more, and what is not known could not be ended.
        if (!(await extendSession(tx, row.id, { tokenId, expiresAt })))
          throw new Refusal('conflict', { message: 'This session cannot be renewed: log in again.' });
        await audit(tx, auditEntry(call, 'session.renew', row.id));
      });
      return { token, expires_at: seconds(expiresAt) };
    }),
    handler(endSession, async ({ row, lease }: OfUser, call) => {
      const ended = await fenced(db, lease, async (tx) => {
        const found = await sessionById(tx, row.id, call.params.id);
        if (found === undefined) throw new Refusal('not_found');
        if (await end(tx, found)) await audit(tx, auditEntry(call, 'session.end', row.id, { session: call.params.id }));
        return found;
      });
      deps.tokensChanged({ kind: 'token', id: ended.tokenId });
      return undefined;
    }),
    handler(endOtherSessions, async ({ row, lease }: OfUser, call) => {
      const ended = await fenced(db, lease, async (tx) => {
        const count = await endSessions(tx, row.id, callerOf(call).tokenId);
        await audit(tx, auditEntry(call, 'session.end_others', row.id, { count }));
        return count;
      });
      deps.tokensChanged({ kind: 'user', id: row.id });
      return { ended };
    }),
  ];
}

function seconds(date: Date): number {
  return Math.floor(date.getTime() / 1000);
}
