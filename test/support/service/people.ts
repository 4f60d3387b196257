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

/** What adds people, and takes them away. */
export function people({ outside, clock, environment }: Pick<TestNode, 'outside' | 'clock' | 'environment'>) {
  return {
    /** A new user, logged in. */
    async person(username: string, ttlSeconds = 3600): Promise<Person> {
      const id = newId();
      assert.ok(await insertUser(outside, { id, username, passwordHash: 'none' }));
      const isAdmin = username === environment.ADMIN_USERNAME;
      const { token } = await sessionTokens(SECRET, ttlSeconds, clock)({ id, username, isAdmin });
      return { id, token };
    },
    /** An API token of the person, or of a service account of theirs, with its id. */
    async apiToken({ id: userId }: Person, of: { readonly scopes: Scopes } | { readonly account: string }) {
      const tokenId = newId();
      const grants = 'account' in of ? { serviceAccountId: of.account } : { scopes: of.scopes };
      const row = { id: tokenId, userId, name: tokenId, grants, expiresAt: undefined, max: 1000 };
      assert.ok(await insertApiToken(outside, row));
      return { token: await apiTokens(SECRET, clock)({ tokenId, userId, expiresAt: undefined }), tokenId };
    },
    /** The user is gone. */
    async forgetUser({ id }: Person): Promise<void> {
      await outside.run('delete from users where id = $1', [id]);
      await outside.notify('tokens', `user:${id}`);
    },
  };
}
