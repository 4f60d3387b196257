/** SQL of service accounts. */
import { z } from 'zod';
import type { Scopes } from '../../proto/scopes.ts';
import type { Queries } from '../db.ts';
import { columnsOf, oneValue } from '../rows.ts';
import { tellTokens } from './token-directory.ts';

const accountRow = z.object({
  id: z.string(),
  name: z.string(),
  scopes: z.record(z.string(), z.array(z.string())),
  tokenCount: z.number(),
  createdAt: z.date(),
});

/** A service account as stored, with the number of its tokens. */
export type ServiceAccountRow = z.output<typeof accountRow>;

const COLUMNS = columnsOf(accountRow, {
  tokenCount: '(select count(*) from api_tokens t where t.service_account_id = service_accounts.id)::int',
});

/**
 * Adds an account unless the user has `max` already; undefined then. Runs in the transaction that holds the user's row.
 */
export function insertServiceAccount(
  tx: Queries,
  account: { id: string; userId: string; name: string; scopes: Scopes; max: number },
): Promise<ServiceAccountRow | undefined> {
  return tx.one(
    accountRow,
    `insert into service_accounts (id, user_id, name, scopes)
     select $1, $2, $3, $4::jsonb where (select count(*) from service_accounts where user_id = $2) < $5
     returning ${columnsOf(accountRow, { tokenCount: '0' })}`,
    [account.id, account.userId, account.name, JSON.stringify(account.scopes), account.max],
  );
}

/** The user's accounts, oldest first. */
export function listServiceAccounts(db: Queries, userId: string): Promise<ServiceAccountRow[]> {
  return db.many(accountRow, `select ${COLUMNS} from service_accounts where user_id = $1 order by created_at, id`, [
    userId,
  ]);
}

/** One account of the user. */
export function serviceAccount(db: Queries, userId: string, id: string): Promise<ServiceAccountRow | undefined> {
  return db.one(accountRow, `select ${COLUMNS} from service_accounts where user_id = $1 and id = $2`, [userId, id]);
}

/** Replaces the scopes; whether that changed them, undefined when the user has no such account. */
export async function setServiceAccountScopes(
  tx: Queries,
  userId: string,
  id: string,
  scopes: Scopes,
): Promise<boolean | undefined> {
  const account = [userId, id, JSON.stringify(scopes)];
  const isSame = await oneValue(
    tx,
    z.boolean(),
    'select scopes = $3::jsonb from service_accounts where user_id = $1 and id = $2 for update',
    account,
  );
  if (isSame !== false) return isSame === undefined ? undefined : false;
  await tx.run('update service_accounts set scopes = $3::jsonb where user_id = $1 and id = $2', account);
  await tellTokens(tx, 'account', id);
  return true;
}

/** Deletes the account and, by cascade, its tokens. Returns its name; undefined when the user has no such account. */
export async function deleteServiceAccount(tx: Queries, userId: string, id: string): Promise<string | undefined> {
  const deleted = 'delete from service_accounts where user_id = $1 and id = $2 returning name';
  const name = await oneValue(tx, z.string(), deleted, [userId, id]);
  await tellTokens(tx, 'account', id);
  return name;
}
