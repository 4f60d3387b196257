/** The administrator's handlers: users, their sessions, and the audit trail. */
import { randomUUID } from 'node:crypto';
import {
  type AdminUserView,
  adminAddUser,
  adminAudit,
  adminChangeUser,
  adminDisableUser,
  adminEnableUser,
  adminEndSessions,
  adminForgetKeys,
  adminListSessions,
  adminListUsers,
  adminPasswordLink,
  adminRemoveUser,
  adminSetPassword,
} from '../../../proto/auth/admin.ts';
import { userChanged } from '../../../proto/auth/endpoints.ts';
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit, readAudit } from '../../../storage/audit.ts';
import { endSessions, listSessions } from '../../../storage/auth/sessions.ts';
import { type UserRow, userById, usersAfter } from '../../../storage/auth/users.ts';
import type { Tx } from '../../../storage/db.ts';
import { leftOf } from '../../../storage/offboarding.ts';
import { append } from '../../../storage/outbox.ts';
import { auditEntry, type EntryMaker } from '../../service/audit.ts';
import { handler } from '../../service/dispatch.ts';
import { keptReply } from '../../service/kept.ts';
import type { AuthDeps } from '../deps.ts';
import { consoleOrigin } from '../login/console-origin.ts';
import { changeLimits, type OwnLimits, ownLimits } from './limits.ts';
import { newPasswordLink } from './password-links.ts';
import { beginRemoval, disableUser, enableUser } from './user-state.ts';
import { addUser, forgetKeys, generatePassword, limitImages, setPassword } from './users.ts';

/** The handlers. */
export function adminHandlers({ db, adminUsername, domain }: AuthDeps) {
  const view = (row: UserRow, limits: (userId: string) => OwnLimits): AdminUserView => ({
    id: row.id,
    username: row.username,
    display_name: row.displayName,
    is_admin: row.username === adminUsername,
    state: stateOf(row),
    created_at: row.createdAt.toISOString(),
    disabled_at: row.disabledAt?.toISOString() ?? null,
    registry_limit_mb: row.registryLimitMb,
    limits: limits(row.id),
  });
  const userOf = async (id: string): Promise<UserRow> => {
    const row = await userById(db, id);
    if (row === undefined) throw new Refusal('not_found', { message: `There is no user with the id ${id}.` });
    return row;
  };

  return [
    handler(adminListUsers, async (_: undefined, { query }) => {
      const rows = await usersAfter(db, query);
      const limits = await ownLimits(
        db,
        rows.map(({ id }) => id),
      );
      return rows.map((row) => view(row, limits));
    }),
    handler(adminAddUser, async (_: undefined, call) => {
      const password = call.body.password ?? generatePassword();
      const reply = ({ id, username }: { id: string; username: string }) => {
        return { id, username, password: call.body.password === undefined ? password : null };
      };
      const besides = (tx: Tx, added: { id: string; username: string }) => keptReply(tx, call, reply(added));
      return reply(await addUser(db, call.body.username, password, entryOf(call), besides));
    }),
    handler(adminChangeUser, async (_: undefined, call) => {
      const { username } = await userOf(call.params.id);
      const { registry_limit_mb: limitMb, limits = {} } = call.body;
      if (limitMb !== undefined) await limitImages(db, username, limitMb, adminUsername, entryOf(call));
      await changeLimits(db, username, limits, entryOf(call));
      return view(await userOf(call.params.id), await ownLimits(db, [call.params.id]));
    }),
    handler(adminSetPassword, async (_: undefined, call) => {
      const { username } = await userOf(call.params.id);
      const password = generatePassword();
      return { password, sessions_ended: await setPassword(db, username, password, entryOf(call)) };
    }),
    handler(adminPasswordLink, async (_: undefined, call) => {
      const { username } = await userOf(call.params.id);
      const wanted = { origin: consoleOrigin(domain, call.host), expiresIn: call.query.expires_in };
      const { url, expiresAt } = await newPasswordLink(db, username, wanted, entryOf(call));
      return { url, expires_at: expiresAt.toISOString() };
    }),
    handler(adminForgetKeys, async (_: undefined, call) => {
      const { username } = await userOf(call.params.id);
      return { keys: await forgetKeys(db, username, entryOf(call)) };
    }),
    handler(adminDisableUser, async (_: undefined, call) => {
      const { id, username } = await userOf(call.params.id);
      if (username === adminUsername)
        throw new Refusal('conflict', {
          message: `${username} is the administrator: name another with ADMIN_USERNAME first.`,
        });
      const { changed, containers } = await disableUser(db, username, call.query, entryOf(call));
      return { state: stateOf(await userOf(id)), changed, containers };
    }),
    handler(adminEnableUser, async (_: undefined, call) => {
      const { username } = await userOf(call.params.id);
      const { changed } = await enableUser(db, username, entryOf(call));
      return { state: 'active' as const, changed };
    }),
    handler(adminRemoveUser, async (_: undefined, call) => {
      const { username } = await userOf(call.params.id);
      const { id } = await beginRemoval(db, username, adminUsername, entryOf(call));
      const { containers, mappings } = await leftOf(db, id);
      return { state: 'leaving' as const, containers, mappings };
    }),
    handler(adminListSessions, async (_: undefined, call) => {
      const { id } = await userOf(call.params.id);
      const sessions = await listSessions(db, id);
      return sessions.map((row) => ({
        id: row.id,
        ip_address: row.ipAddress,
        created_at: row.createdAt.toISOString(),
      }));
    }),
    handler(adminEndSessions, async (_: undefined, call) => {
      const { id, username } = await userOf(call.params.id);
      const ended = await db.tx(async (tx) => {
        const count = await endSessions(tx, id);
        await audit(tx, auditEntry(call, 'session.end_all', id, { username, sessions: count }));
        await append(tx, { msgId: randomUUID(), subject: userChanged.subject(id), data: new Uint8Array() });
        return count;
      });
      return { ended };
    }),
    handler(adminAudit, async (_: undefined, { query }) => {
      const { since, before, ...rest } = query;
      const rows = await readAudit(db, {
        ...rest,
        ...(since === undefined ? {} : { since: new Date(since) }),
        ...(before === undefined ? {} : { beforeId: before }),
      });
      return rows.reverse().map((row) => ({
        id: row.id,
        at: row.at.toISOString(),
        user_id: row.userId,
        username: row.username,
        action: row.action,
        target: row.target,
        address: row.address,
        request_id: row.requestId,
        detail: row.detail,
      }));
    }),
  ];
}

/** Entries of what the caller of this call did. */
function entryOf(call: Call): EntryMaker {
  return (action, target, detail) => auditEntry(call, action, target, detail);
}

function stateOf({ leaving, disabledAt }: UserRow): AdminUserView['state'] {
  if (leaving === 'remove') return 'leaving';
  return disabledAt === null ? 'active' : 'disabled';
}
