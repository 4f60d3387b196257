/** The service accounts of a user: what the user's actor answers about them. */
import {
  createServiceAccount,
  deleteServiceAccount,
  getServiceAccount,
  listServiceAccounts,
  MAX_SERVICE_ACCOUNTS,
  type ServiceAccountView,
  setServiceAccountScopes,
} from '../../../proto/auth/api-tokens.ts';
import { Refusal } from '../../../proto/errors.ts';
import { newId } from '../../../proto/ids.ts';
import { notificationEvent } from '../../../proto/notify/notification.ts';
import { audit } from '../../../storage/audit.ts';
import {
  deleteServiceAccount as deleteRow,
  insertServiceAccount,
  listServiceAccounts as rowsOf,
  type ServiceAccountRow,
  serviceAccount,
  setServiceAccountScopes as setScopes,
} from '../../../storage/auth/service-accounts.ts';
import { holdUser } from '../../../storage/auth/users.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, found, type Handler, handler } from '../../service/dispatch.ts';
import { keptReply } from '../../service/kept.ts';
import type { LeaseHolder } from '../../service/placement.ts';
import type { AuthDeps } from '../deps.ts';
import { acceptScopes } from './api-token-rules.ts';
import { noAccount, unixSeconds, writable } from './api-tokens.ts';

/** Where the console shows them. */
const LINK = '/settings/service-accounts';

/** The handlers. */
export function serviceAccountHandlers({ db, clock, tokensChanged }: AuthDeps): readonly Handler<LeaseHolder>[] {
  const news = (userId: string, title: string, message: string) =>
    notificationEvent('auth', clock.now(), { userId, title, message, link: LINK, category: 'auth', scope: '' });

  return [
    handler(createServiceAccount, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      const scopes = acceptScopes(call.body.scopes, userId);
      const account = { id: newId(), userId, name: call.body.name, scopes, max: MAX_SERVICE_ACCOUNTS };
      return fenced(db, lease, async (tx) => {
        if (!(await holdUser(tx, userId))) throw new Refusal('unauthorized');
        const row = await insertServiceAccount(tx, account);
        if (row === undefined) {
          throw new Refusal('limit_reached', {
            message: `You can have at most ${MAX_SERVICE_ACCOUNTS} service accounts: delete one first.`,
          });
        }
        await audit(tx, auditEntry(call, 'service_account.create', row.id, { name: row.name, scopes }));
        await append(tx, news(userId, 'Service account created', `The service account "${row.name}" was created.`));
        return keptReply(tx, call, view(row));
      });
    }),

    handler(listServiceAccounts, async (_: LeaseHolder, call) => (await rowsOf(db, callerOf(call).userId)).map(view)),

    handler(getServiceAccount, async (_: LeaseHolder, call) => {
      const row = found(await serviceAccount(db, callerOf(call).userId, call.params.id), noAccount);
      return view(row);
    }),

    handler(setServiceAccountScopes, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      const scopes = acceptScopes(call.body.scopes, userId);
      await fenced(db, lease, async (tx) => {
        const changed = found(await setScopes(tx, userId, call.params.id, scopes), noAccount);
        if (changed) await audit(tx, auditEntry(call, 'service_account.set_scopes', call.params.id, { scopes }));
      });
      tokensChanged({ kind: 'account', id: call.params.id });
      return { status: 'ok' as const };
    }),

    handler(deleteServiceAccount, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      await fenced(db, lease, async (tx) => {
        const name = found(await deleteRow(tx, userId, call.params.id), noAccount);
        await audit(tx, auditEntry(call, 'service_account.delete', call.params.id, { name }));
        await append(
          tx,
          news(userId, 'Service account deleted', `The service account "${name}" and its tokens are gone.`),
        );
      });
      tokensChanged({ kind: 'account', id: call.params.id });
      return { status: 'ok' as const };
    }),
  ];
}

function view(row: ServiceAccountRow): ServiceAccountView {
  return {
    id: row.id,
    name: row.name,
    scopes: writable(row.scopes),
    token_count: row.tokenCount,
    created_at: unixSeconds(row.createdAt),
  };
}
