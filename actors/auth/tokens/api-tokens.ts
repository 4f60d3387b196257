/** The API tokens of a user: what the user's actor answers about them. */
import {
  createServiceAccountToken,
  createToken,
  deleteToken,
  listServiceAccountTokens,
  listTokens,
  MAX_TOKENS,
} from '../../../proto/auth/api-tokens.ts';
import { Refusal } from '../../../proto/errors.ts';
import { newId } from '../../../proto/ids.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { audit } from '../../../storage/audit.ts';
import { type ApiTokenRow, deleteApiToken, insertApiToken, listApiTokens } from '../../../storage/auth/api-tokens.ts';
import { serviceAccount } from '../../../storage/auth/service-accounts.ts';
import { holdUser } from '../../../storage/auth/users.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, found, type Handler, handler } from '../../service/dispatch.ts';
import { keptReply } from '../../service/kept.ts';
import type { LeaseHolder } from '../../service/placement.ts';
import type { AuthDeps } from '../deps.ts';
import { acceptScopes, expiryOf, refuseNothing } from './api-token-rules.ts';
import { apiTokens } from './issue-tokens.ts';

/** The handlers. */
export function apiTokenHandlers(deps: AuthDeps): readonly Handler<LeaseHolder>[] {
  const { db, clock } = deps;
  const issue = apiTokens(deps.jwtSecret, clock);

  return [
    handler(createToken, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      const scopes = acceptScopes(call.body.scopes, userId);
      refuseNothing(scopes);
      const made = { id: newId(), name: call.body.name, expiresAt: expiryOf(call.body.expires_in, clock.now()) };
      const token = await issue({ tokenId: made.id, userId, expiresAt: made.expiresAt });
      return fenced(db, lease, async (tx) => {
        if (!(await holdUser(tx, userId))) throw new Refusal('unauthorized');
        const added = await insertApiToken(tx, { ...made, userId, grants: { scopes }, max: MAX_TOKENS });
        if (added === undefined) throw tooMany();
        await audit(tx, auditEntry(call, 'token.create', made.id, { name: made.name, scopes }));
        return keptReply(tx, call, { ...fresh(made, added), scopes: writable(scopes), token });
      });
    }),

    handler(listTokens, async (_: LeaseHolder, call) =>
      (await listApiTokens(db, callerOf(call).userId)).map((row) => ({
        ...view(row),
        scopes: row.scopes,
        service_account_id: row.serviceAccountId,
      })),
    ),

    handler(deleteToken, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      await fenced(db, lease, async (tx) => {
        const name = await deleteApiToken(tx, userId, call.params.id);
        if (name === undefined) throw new Refusal('not_found', { message: 'You have no API token with this id.' });
        await audit(tx, auditEntry(call, 'token.delete', call.params.id, { name }));
      });
      deps.tokensChanged({ kind: 'token', id: call.params.id });
      return { status: 'ok' as const };
    }),

    handler(createServiceAccountToken, async ({ lease }: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      const made = { id: newId(), name: call.body.name, expiresAt: expiryOf(call.body.expires_in, clock.now()) };
      const token = await issue({ tokenId: made.id, userId, expiresAt: made.expiresAt });
      return fenced(db, lease, async (tx) => {
        if (!(await holdUser(tx, userId))) throw new Refusal('unauthorized');
        const account = found(await serviceAccount(tx, userId, call.params.id), noAccount);
        const grants = { serviceAccountId: account.id };
        const added = found(await insertApiToken(tx, { ...made, userId, grants, max: MAX_TOKENS }), tooMany);
        await audit(tx, auditEntry(call, 'token.create', made.id, { name: made.name, service_account: account.id }));
        return keptReply(tx, call, { ...fresh(made, added), token });
      });
    }),

    handler(listServiceAccountTokens, async (_: LeaseHolder, call) => {
      const { userId } = callerOf(call);
      if ((await serviceAccount(db, userId, call.params.id)) === undefined) throw noAccount();
      return (await listApiTokens(db, userId, call.params.id)).map(view);
    }),
  ];

  function fresh(made: { id: string; name: string; expiresAt: number | undefined }, createdAt: Date) {
    return {
      id: made.id,
      name: made.name,
      expires_at: made.expiresAt ?? 0,
      created_at: unixSeconds(createdAt),
      last_used_at: 0,
    };
  }
}

/** The refusal for a service account that the caller does not have. */
export function noAccount(): Refusal {
  return new Refusal('not_found', { message: 'You have no service account with this id.' });
}

function tooMany(): Refusal {
  return new Refusal('limit_reached', { message: `There can be at most ${MAX_TOKENS} tokens: delete one first.` });
}

function view(row: ApiTokenRow) {
  return {
    id: row.id,
    name: row.name,
    expires_at: unixSeconds(row.expiresAt),
    created_at: unixSeconds(row.createdAt),
    last_used_at: unixSeconds(row.lastUsedAt),
  };
}

/** Unix seconds; 0 for a time that never is. */
export function unixSeconds(time: Date | null): number {
  return time === null ? 0 : Math.floor(time.getTime() / 1000);
}

/** Scopes as a reply's schema has them. */
export function writable(scopes: Scopes): Record<string, string[]> {
  return Object.fromEntries(Object.entries(scopes).map(([key, actions]) => [key, [...actions]]));
}
