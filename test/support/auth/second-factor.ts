/** The ceremonies as a browser walks them, against the service of a test. */

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { z } from 'zod';
import { login } from '../../../proto/auth/endpoints.ts';
import { beginAddKey, beginKeyLogin, finishAddKey, finishKeyLogin } from '../../../proto/auth/security-keys.ts';
import type { Caller, ReplyOf } from '../../../proto/endpoint.ts';
import { readAudit } from '../../../storage/audit.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../service/auth.ts';
import { type NewCredentialJson, type SignedCredentialJson, SoftKey, type Wrong } from './authenticator.ts';

const challenged = z.strictObject({ requires_2fa: z.literal(true), challenge_token: z.string() });

/** Adds a key from begin to finish. */
export async function addKey(
  auth: AuthUnderTest,
  caller: Caller,
  key: SoftKey,
  name = '',
  wrong: Wrong = {},
): Promise<void> {
  const { options, state } = await auth.call(beginAddKey, caller);
  assert.equal(await finishAdd(auth, caller, state, key.create(options, wrong), name), undefined);
}

/** Finishes adding a key. */
export function finishAdd(
  auth: AuthUnderTest,
  caller: Caller,
  state: string,
  credential: NewCredentialJson,
  name = '',
): Promise<undefined> {
  return auth.call(finishAddKey, caller, { body: { state, credential, name } });
}

/** Gives the password of somebody who has keys, and returns the challenge token. */
export async function challengeToken(auth: AuthUnderTest, username = 'ann'): Promise<string> {
  const reply = await auth.call(login, undefined, { body: { username, password: PASSWORD } });
  return challenged.parse(reply).challenge_token;
}

/** Whom the challenge token proves. */
export async function challengedCaller(auth: AuthUnderTest, username = 'ann'): Promise<Caller> {
  const caller = await auth.prove(await challengeToken(auth, username));
  assert.ok(caller);
  assert.equal(caller.kind, 'challenge');
  return caller;
}

/** Password and begin: what the key is to sign. */
export async function beginLogin(auth: AuthUnderTest, username = 'ann'): Promise<ReplyOf<typeof beginKeyLogin>> {
  return auth.call(beginKeyLogin, await challengedCaller(auth, username));
}

/** Finishes a login with a key. */
export function finishLogin(
  auth: AuthUnderTest,
  state: string,
  credential: SignedCredentialJson,
): Promise<ReplyOf<typeof finishKeyLogin>> {
  return auth.call(finishKeyLogin, undefined, { body: { state, credential } });
}

/** Logs in with password and key, and returns who the token proves. */
export async function enterWithKey(
  auth: AuthUnderTest,
  key: SoftKey,
  username = 'ann',
  wrong: Wrong = {},
): Promise<Caller> {
  const { options, state } = await beginLogin(auth, username);
  const caller = await auth.prove((await finishLogin(auth, state, key.get(options, wrong))).token);
  assert.ok(caller);
  return caller;
}

/** The entries of the audit trail with this action: target and detail. */
export async function entries(auth: AuthUnderTest, action: string) {
  const rows = await readAudit(auth.db, { action, limit: 100 });
  return rows.map(({ username, address, target, detail }) => ({ username, address, target, detail }));
}

/** The last line of the log, with the reason it gives. */
export function lastReason(auth: AuthUnderTest): string {
  const { message = '', fields = {} } = auth.log.lines.at(-1) ?? {};
  return `${message}: ${'reason' in fields ? fields.reason : ''}`;
}

/** A auth where Ann has a key. */
export async function authWithKey(
  t: TestContext,
  key = new SoftKey(),
): Promise<{ auth: AuthUnderTest; ann: Caller; key: SoftKey }> {
  const auth = await openAuth(t);
  const ann = await auth.enter('ann');
  await addKey(auth, ann, key, 'blue one');
  return { auth, ann, key };
}
