/** Links by which users set passwords. */
import assert from 'node:assert/strict';
import { addUser } from '../../../actors/auth/users/users.ts';
import { adminPasswordLink } from '../../../proto/auth/admin.ts';
import { showPasswordLink, usePasswordLink } from '../../../proto/auth/endpoints.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../service/auth.ts';
import type { Cleanup } from '../temp.ts';

/** What links set. */
export const NEW = 'another fine password';

/** An administrator, and Ann, who gets links. */
export async function setting(t: Cleanup) {
  const auth = await openAuth(t);
  await addUser(auth.outside, 'admin', PASSWORD);
  const admin = await auth.enter('admin');
  const ann = await auth.enter('ann');
  return { auth, admin, ann, ...linksOf(auth, admin, ann.userId) };
}

/** Makes links for the user of this id, and asks by them. */
export function linksOf(auth: AuthUnderTest, admin: Awaited<ReturnType<AuthUnderTest['enter']>>, id: string) {
  const make = async (query: Record<string, string> = {}) => {
    const { url } = await auth.call(adminPasswordLink, admin, { params: { id }, query });
    return tokenOf(url);
  };
  const show = (token: string, address = '198.51.100.7') =>
    auth.call(showPasswordLink, undefined, { body: { token }, address });
  const use = (token: string, new_password = NEW, address = '198.51.100.7') =>
    auth.call(usePasswordLink, undefined, { body: { token, new_password }, address });
  return { make, show, use };
}

/** What stands in a link. */
export function tokenOf(url: string): string {
  const [, token = ''] = /^https:\/\/troupe\.test\/password#([\w-]{43})$/.exec(url) ?? [];
  assert.ok(token !== '', url);
  return token;
}
