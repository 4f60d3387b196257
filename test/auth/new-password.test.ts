/** What a new password ends, and what wants the password again. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setPassword } from '../../actors/auth/users/users.ts';
import { createToken } from '../../proto/auth/api-tokens.ts';
import { changePassword, passwordSchema } from '../../proto/auth/endpoints.ts';
import { beginAddKey, beginKeyLogin, deleteKey, finishAddKey, listKeys } from '../../proto/auth/security-keys.ts';
import { listSessions } from '../../proto/auth/sessions.ts';
import { SoftKey } from '../support/auth/authenticator.ts';
import { authWithKey, beginLogin, challengedCaller, entries, finishLogin } from '../support/auth/second-factor.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, otherProcess, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const NEW = 'another fine password';
const HOUR = 3_600_000;

test('a new password ends all sessions and their streams but the one that asks; API tokens go on', async (t) => {
  const auth = await openAuth(t);
  const { authenticate, streams } = otherProcess(t, auth);
  const [mine, other] = [(await auth.login('ann', PASSWORD)).token, (await auth.login('ann', PASSWORD)).token];
  const ann = await auth.prove(mine);
  assert.ok(ann);
  const scopes = { [`compute.${ann.userId}`]: ['read'] };
  const { token } = await auth.call(createToken, ann, { body: { name: 'ci', scopes } });
  const ended: string[] = [];
  for (const text of [mine, other, token]) {
    const caller = await authenticate(text);
    assert.ok(caller);
    t.after(streams.watch(caller, undefined, (reason) => ended.push(`${text === other}: ${reason}`)));
  }
  await auth.call(changePassword, ann, { body: { current_password: PASSWORD, new_password: NEW } });
  // Here at once; elsewhere within a second.
  assert.equal(await auth.prove(other), undefined);
  await until(async () => (await authenticate(other)) === undefined, { what: 'the other session is over' });
  await until(() => ended.length > 0, { what: 'its stream is closed' });
  assert.deepEqual(ended, ['true: token revoked']);
  for (const text of [mine, token, (await auth.login('ann', NEW)).token])
    assert.equal((await authenticate(text))?.userId, ann.userId);
  assert.deepEqual(
    (await auth.call(listSessions, ann)).map(({ is_current }) => is_current),
    [false, true],
  );

  // The next one who asks is the only one who stays.
  const next = await auth.enter('ann', NEW);
  await auth.call(changePassword, next, { body: { current_password: NEW, new_password: PASSWORD } });
  assert.equal(await auth.prove(mine), undefined);
  assert.equal((await auth.call(listSessions, next)).length, 1);
});

test('a password that the operator sets ends all sessions', async (t) => {
  const auth = await openAuth(t);
  const tokens = [(await auth.login('ann', PASSWORD)).token, (await auth.login('ann', PASSWORD)).token];
  const { authenticate } = otherProcess(t, auth);
  for (const token of tokens) assert.ok(await authenticate(token));
  assert.equal(await setPassword(auth.outside, 'ann', NEW), 2);
  for (const token of tokens)
    await until(async () => (await authenticate(token)) === undefined, { what: 'the session is over' });
  assert.ok(await authenticate((await auth.login('ann', NEW)).token), 'a new one counts at once');
});

test('a login that waits for its security key does not outlive the password that began it', async (t) => {
  const { auth, key } = await authWithKey(t);
  const early = await challengedCaller(auth);
  const { options, state } = await beginLogin(auth);
  await setPassword(auth.outside, 'ann', NEW);
  await refused('unauthorized', auth.call(beginKeyLogin, early));
  await refused('invalid_credential', finishLogin(auth, state, key.get(options)));
});

test('keys are added and removed after a fresh login, or with the password', async (t) => {
  const { auth, ann, key } = await authWithKey(t);
  auth.clock.advance(11 * 60_000);
  const { keys } = await auth.call(listKeys, ann);
  const [{ id = '' } = {}] = keys;
  const refusal = await refused('proof_needed', auth.call(deleteKey, ann, { body: { id } }));
  assert.match(refusal.message, /older than 10 minutes: send your password as "password" in this body/);
  await refused('wrong_password', auth.call(deleteKey, ann, { body: { id, password: 'not this one' } }));
  assert.deepEqual(
    (await entries(auth, 'security_key.refused')).map(({ username }) => username),
    ['ann'],
  );

  // What was begun is not lost by the question.
  const { options, state } = await auth.call(beginAddKey, ann);
  const credential = new SoftKey().create(options);
  await refused('proof_needed', auth.call(finishAddKey, ann, { body: { state, credential } }));
  await auth.call(finishAddKey, ann, { body: { state, credential, password: PASSWORD } });
  assert.equal((await auth.call(listKeys, ann)).keys.length, 2);
  await auth.call(deleteKey, ann, { body: { id, password: PASSWORD } });
  assert.equal((await auth.call(listKeys, ann)).keys.length, 1);
  assert.ok(key);
});

test('a session of an hour ago that changed the password proves no more than before', async (t) => {
  const auth = await openAuth(t);
  const ann = await auth.enter('ann');
  auth.clock.advance(HOUR / 2);
  await auth.call(changePassword, ann, { body: { current_password: PASSWORD, new_password: NEW } });
  const { options, state } = await auth.call(beginAddKey, ann);
  const body = { state, credential: new SoftKey().create(options) };
  await refused('proof_needed', auth.call(finishAddKey, ann, { body }));
});

test('a password that everybody tries first is refused, and so is the username', async (t) => {
  for (const text of [
    ...[
      'password',
      'Password1!',
      'p@ssw0rd',
      '12345678',
      '987654321',
      'qwertyuiop',
      'letmein123',
      'changeme',
      'adminadmin',
    ],
    ...['welcome2026', '11111111', 'abababab', '1q2w3e4r', 'troupe123', 'iloveyou'],
  ])
    assert.equal(passwordSchema.safeParse(text).success, false, text);
  for (const text of ['correct horse', 'пароль секрет', 'passwords are hard', 'Tr0ub4dor&3', 'x7!k2#pQ', 'a b c d e f'])
    assert.equal(passwordSchema.safeParse(text).success, true, text);
  const auth = await openAuth(t);
  await refused('invalid_request', setPassword(auth.outside, 'ann', 'password'));
});
