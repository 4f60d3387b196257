/** SQL of API tokens, those of service accounts among them. */
import { z } from 'zod';
import type { Scopes } from '../../proto/scopes.ts';
import type { Queries } from '../db.ts';
import { columnsOf, oneValue } from '../rows.ts';
import { tellTokens } from './token-directory.ts';

const tokenRow = z.object({
  id: z.string(),
  name: z.string(),
  scopes: z.record(z.string(), z.array(z.string())),
  serviceAccountId: z.string().nullable(),
  createdAt: z.date(),
  expiresAt: z.date().nullable(),
  lastUsedAt: z.date().nullable(),
});

/** A token as stored. `scopes` are its own, or those its service account has now. */
export type ApiTokenRow = z.output<typeof tokenRow>;

const SELECT = `select ${columnsOf(tokenRow, { scopes: 'coalesce(t.scopes, a.scopes)' }, 't')}
  from api_tokens t left join service_accounts a on a.id = t.service_account_id`;

/** A new token, before it is stored. */
interface NewApiToken {
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  /** Either scopes of its own, or a service account. */
  readonly grants: { readonly scopes: Scopes } | { readonly serviceAccountId: string };
  /** Unix seconds; undefined: never. */
  readonly expiresAt: number | undefined;
  /** Most living tokens of this user's own, or of this service account. */
  readonly max: number;
}

/** Adds a token; when it was made, or undefined past the limit. Runs in the transaction that holds the user's row. */
export function insertApiToken(tx: Queries, token: NewApiToken): Promise<Date | undefined> {
  const { grants } = token;
  const account = 'serviceAccountId' in grants ? grants.serviceAccountId : null;
  return oneValue(
    tx,
    z.date(),
    `insert into api_tokens (id, user_id, service_account_id, name, scopes, expires_at)
     select $1, $2, $3, $4, $5::jsonb, to_timestamp($6)
     where (select count(*) from api_tokens where user_id = $2 and service_account_id is not distinct from $3
              and (expires_at is null or expires_at > now())) < $7
     returning created_at`,
    [
      token.id,
      token.userId,
      account,
      token.name,
      'scopes' in grants ? JSON.stringify(grants.scopes) : null,
      token.expiresAt ?? null,
      token.max,
    ],
  );
}

/** The user's tokens, oldest first; those of one service account only when it is given. */
export function listApiTokens(db: Queries, userId: string, serviceAccountId?: string): Promise<ApiTokenRow[]> {
  return db.many(
    tokenRow,
    `${SELECT} where t.user_id = $1 and ($2::text is null or t.service_account_id = $2) order by t.created_at, t.id`,
    [userId, serviceAccountId ?? null],
  );
}

/** The living token with this id, whosever it is; none of a disabled user. */
export function livingApiToken(db: Queries, id: string): Promise<ApiTokenRow | undefined> {
  return db.one(
    tokenRow,
    `${SELECT} join users u on u.id = t.user_id and u.disabled_at is null
     where t.id = $1 and (t.expires_at is null or t.expires_at > now())`,
    [id],
  );
}

/** Deletes a token. Returns its name; undefined when the user has no such token. */
export async function deleteApiToken(tx: Queries, userId: string, id: string): Promise<string | undefined> {
  const deleted = 'delete from api_tokens where user_id = $1 and id = $2 returning name';
  const name = await oneValue(tx, z.string(), deleted, [userId, id]);
  await tellTokens(tx, 'token', id);
  return name;
}

/** Records when tokens were last used (unix seconds), in one statement. A time older than the stored one is ignored. */
export async function recordUses(db: Queries, uses: ReadonlyMap<string, number>): Promise<void> {
  await db.run(
    `update api_tokens t set last_used_at = to_timestamp(u.at)
     from unnest($1::text[], $2::float8[]) as u (id, at)
     where t.id = u.id and (t.last_used_at is null or t.last_used_at < to_timestamp(u.at))`,
    [[...uses.keys()], [...uses.values()]],
  );
}

/** Drops tokens that expired over 30 days ago. Returns how many went. */
export function purgeApiTokens(db: Queries): Promise<number> {
  return db.run(`delete from api_tokens where expires_at < now() - interval '30 days'`);
}
