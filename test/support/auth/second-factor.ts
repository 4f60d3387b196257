/** The ceremonies as a browser walks them, against the service of a test. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { z } from 'zod';
import { login } from '../../../proto/auth/endpoints.ts';
import { beginAddKey, beginKeyLogin, finishAddKey, finishKeyLogin } from '../../../proto/auth/security-keys.ts';
import type { Caller, ReplyOf } from '../../../proto/endpoint.ts';
import { readAudit } from '../../../storage/audit.ts';
import { type House, openHouse, PASSWORD } from '../service/auth.ts';
import { type NewCredentialJson, type SignedCredentialJson, SoftKey, type Wrong } from './authenticator.ts';

const challenged = z.strictObject({ requires_2fa: z.literal(true), challenge_token: z.string() });

/** Adds a key from begin to finish. */
export async function addKey(house: House, caller: Caller, key: SoftKey, name = '', wrong: Wrong = {}): Promise<void> {
  const { options, state } = await house.call(beginAddKey, caller);
  assert.equal(await finishAdd(house, caller, state, key.create(options, wrong), name), undefined);
}

/** Finishes adding a key. */
export function finishAdd(
  house: House,
  caller: Caller,
  state: string,
  credential: NewCredentialJson,
  name = '',
): Promise<undefined> {
  return house.call(finishAddKey, caller, { body: { state, credential, name } });
}

/** Gives the password of somebody who has keys, and returns the challenge token. */
export async function challengeToken(house: House, username = 'ann'): Promise<string> {
  const reply = await house.call(login, undefined, { body: { username, password: PASSWORD } });
  return challenged.parse(reply).challenge_token;
}

/** Whom the challenge token proves. */
export async function challengedCaller(house: House, username = 'ann'): Promise<Caller> {
  const caller = await house.prove(await challengeToken(house, username));
  assert.ok(caller);
  assert.equal(caller.kind, 'challenge');
  return caller;
}

/** Password and begin: what the key is to sign. */
export async function beginLogin(house: House, username = 'ann'): Promise<ReplyOf<typeof beginKeyLogin>> {
  return house.call(beginKeyLogin, await challengedCaller(house, username));
}

/** Finishes a login with a key. */
export function finishLogin(
  house: House,
  state: string,
  credential: SignedCredentialJson,
): Promise<ReplyOf<typeof finishKeyLogin>> {
  return house.call(finishKeyLogin, undefined, { body: { state, credential } });
}

/** Logs in with password and key, and returns who the token proves. */
export async function enterWithKey(house: House, key: SoftKey, username = 'ann', wrong: Wrong = {}): Promise<Caller> {
  const { options, state } = await beginLogin(house, username);
  const caller = await house.prove((await finishLogin(house, state, key.get(options, wrong))).token);
  assert.ok(caller);
  return caller;
}

/** The entries of the audit trail with this action: target and detail. */
export async function entries(house: House, action: string) {
  const rows = await readAudit(house.db, { action, limit: 100 });
  return rows.map(({ username, address, target, detail }) => ({ username, address, target, detail }));
}

/** The last line of the log, with the reason it gives. */
export function lastReason(house: House): string {
  const { message = '', fields = {} } = house.log.lines.at(-1) ?? {};
  return `${message}: ${'reason' in fields ? fields.reason : ''}`;
}

/** A house where Ann has a key. */
export async function houseWithKey(
  t: TestContext,
  key = new SoftKey(),
): Promise<{ house: House; ann: Caller; key: SoftKey }> {
  const house = await openHouse(t);
  const ann = await house.enter('ann');
  await addKey(house, ann, key, 'blue one');
  return { house, ann, key };
}
