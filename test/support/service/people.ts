/** People with tokens, as storage has them. */
import assert from 'node:assert/strict';
import { apiTokens, sessionTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../../../proto/ids.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { insertApiToken } from '../../../storage/auth/api-tokens.ts';
import { insertUser } from '../../../storage/auth/users.ts';
import { SECRET, type TestNode } from './node.ts';

/** Somebody who is logged in. */
export interface Person {
  readonly id: string;
  readonly token: string;
}

type Where = Pick<TestNode, 'outside' | 'clock' | 'environment'>;

/** A new user, logged in. */
export async function addPerson(where: Where, username: string, ttlSeconds = 3600): Promise<Person> {
  const id = newId();
  assert.ok(await insertUser(where.outside, { id, username, passwordHash: 'none' }));
  const isAdmin = username === where.environment.ADMIN_USERNAME;
  const { token } = await sessionTokens(SECRET, ttlSeconds, where.clock)({ id, username, isAdmin });
  return { id, token };
}

/** An API token of the person, or of a service account of theirs. */
export async function addApiToken(
  where: Where,
  { id: userId }: Person,
  of: { readonly scopes: Scopes } | { readonly account: string },
): Promise<{ token: string; tokenId: string }> {
  const tokenId = newId();
  const grants = 'account' in of ? { serviceAccountId: of.account } : { scopes: of.scopes };
  const row = { id: tokenId, userId, name: tokenId, grants, expiresAt: undefined, max: 1000 };
  assert.ok(await insertApiToken(where.outside, row));
  return { token: await apiTokens(SECRET, where.clock)({ tokenId, userId, expiresAt: undefined }), tokenId };
}
