/**
 * What every service asks about tokens. Changes are told by the database itself, at the commit that makes them: a token
 * deleted on one node is dead on all others as soon as they hear it, whatever else is down.
 */
import { z } from 'zod';
import type { TokenDirectory, TokenNews } from '../../proto/auth/tokens.ts';
import type { Caller } from '../../proto/endpoint.ts';
import type { Db, Queries } from '../db.ts';

const CHANNEL = 'tokens';

const grantRow = z.object({
  userId: z.string(),
  username: z.string(),
  scopes: z.record(z.string(), z.array(z.string())),
  serviceAccountId: z.string().nullable(),
  serviceAccount: z.string().nullable(),
  expiresAt: z.number(),
});

const newsSchema = z
  .string()
  .regex(/^(token|account|user):[a-z0-9]+$/)
  .transform((text): TokenNews => {
    const [kind = '', id = ''] = text.split(':');
    return { kind: kind === 'token' ? 'token' : kind === 'account' ? 'account' : 'user', id };
  });

/**
 * What holds for the row of a user while a session of theirs counts: nothing has ended it since it began. Parameters:
 * `sessionParameters`.
 */
export const SESSION_COUNTS = `id = $1 and disabled_at is null
  and (sessions_from is null or sessions_from <= to_timestamp($2::float8))
  and (sessions_epoch = $3::int or kept_session = $4::text)
  and not exists (select from ended_sessions where token_id = $4::text)`;

/** Those of a session, given as a caller has it: none counts without `session`, but for the one that was kept. */
export function sessionParameters(
  userId: string,
  { tokenId, session }: Pick<Caller, 'tokenId' | 'session'>,
): readonly (string | number | null)[] {
  return [userId, session?.issuedAt ?? null, session?.epoch ?? null, tokenId];
}

/** The directory in `db`. */
export function tokenDirectory(db: Db): TokenDirectory {
  return {
    grant: (tokenId) =>
      db.one(
        grantRow,
        `select t.user_id as "userId", u.username, coalesce(t.scopes, a.scopes) as scopes,
           t.service_account_id as "serviceAccountId", a.name as "serviceAccount",
           coalesce(floor(extract(epoch from t.expires_at)), 0)::float8 as "expiresAt"
         from api_tokens t join users u on u.id = t.user_id left join service_accounts a on a.id = t.service_account_id
         where t.id = $1 and u.disabled_at is null and (t.expires_at is null or t.expires_at > now())`,
        [tokenId],
      ),
    knowsUser: async (userId, { tokenId, ...session }) =>
      (await db.run(`select from users where ${SESSION_COUNTS}`, sessionParameters(userId, { tokenId, session }))) > 0,
    onNews: (handler) => db.listen(CHANNEL, (payload) => handler(newsSchema.catch({ kind: 'all' }).parse(payload))),
  };
}

/** Tells all nodes, when `tx` commits, that something about these tokens changed. */
export function tellTokens(tx: Queries, kind: 'token' | 'account' | 'user', id: string): Promise<void> {
  return tx.notify(CHANNEL, `${kind}:${id}`);
}
