/** Logins of programs that a person approves in a browser: the real service, called as a transport calls it. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { json } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { disableUser } from '../../actors/auth/users/user-state.ts';
import { addUser, setPassword } from '../../actors/auth/users/users.ts';
import { approveDevice, beginDevice, deviceToken } from '../../proto/auth/device.ts';
import { listSessions } from '../../proto/auth/endpoints.ts';
import { isRecentLogin } from '../../proto/auth/security-keys.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { serve } from '../support/service/open-service.ts';

failOnLeaks();

const begun = z.object({ verification_url: z.string() });
const LETTERS = 'CDFGHJKMNPQRTVWXY34679';

async function setting(t: TestContext) {
  const auth = await openAuth(t);
  const ann = await auth.enter('ann');
  const begin = (name = 'laptop', address = '198.51.100.7') =>
    auth.call(beginDevice, undefined, { body: { name }, address });
  const ask = (device_code: string, address = '198.51.100.7') =>
    auth.call(deviceToken, undefined, { body: { device_code }, address });
  const decide = (user_code: string, decision: 'show' | 'approve' | 'refuse', caller: Caller = ann) =>
    auth.call(approveDevice, caller, { body: { user_code, decision } });
  return { auth, ann, begin, ask, decide };
}

/** The program waited as long as it was told. */
const waited = (auth: AuthUnderTest) =>
  auth.db.run(`update device_logins set asked_at = asked_at - interval '2 minutes'`);
const forgiven = (auth: AuthUnderTest) => auth.db.run('delete from login_attempts');
const rows = (auth: AuthUnderTest) => auth.db.run('select from device_logins');
const actions = async (auth: AuthUnderTest, like: string) =>
  (
    await auth.db.many(
      z.object({ action: z.string(), detail: z.record(z.string(), z.unknown()) }),
      'select action, detail from audit_log where action like $1 order by id',
      [like],
    )
  ).map(({ action, detail }) => ({ action, detail }));
const randomCode = () => Array.from({ length: 8 }, () => LETTERS[randomInt(LETTERS.length)]).join('');

test('a program gets a session once, after a person approved its code', async (t) => {
  const { auth, ann, begin, ask, decide } = await setting(t);
  const begun = await begin();
  assert.match(begun.user_code, new RegExp(`^[${LETTERS}]{4}-[${LETTERS}]{4}$`));
  assert.equal(begun.verification_url, 'https://troupe.test/device');
  assert.equal(begun.verification_url_complete, `https://troupe.test/device#${begun.user_code}`);
  assert.deepEqual([begun.expires_in, begun.interval], [600, 2]);
  assert.deepEqual(await ask(begun.device_code), { status: 'pending', interval: 2 });

  // A look completes nothing.
  const typed = begun.user_code.toLowerCase().replace('-', ' ');
  const shown = await decide(typed, 'show');
  assert.deepEqual([shown.status, shown.name, shown.address], ['pending', 'laptop', '198.51.100.7']);
  await waited(auth);
  assert.equal((await ask(begun.device_code)).status, 'pending');

  assert.equal((await decide(typed, 'approve')).status, 'approved');
  const got = await ask(begun.device_code);
  assert.ok(got.status === 'approved');
  const caller = await auth.prove(got.token);
  assert.deepEqual([caller?.userId, caller?.kind], [ann.userId, 'session']);
  assert.equal(new Date((caller?.expiresAt ?? 0) * 1000).toISOString(), got.expires_at);
  assert.deepEqual(await ask(begun.device_code), { status: 'expired' });
  await refused('not_found', decide(typed, 'approve'));
  const [listed] = await auth.call(listSessions, ann);
  assert.deepEqual([listed?.user_agent, listed?.ip_address], ['troupe on laptop', '198.51.100.7']);
  assert.deepEqual(await actions(auth, 'device.%'), [
    { action: 'device.approve', detail: { name: 'laptop', address: '198.51.100.7' } },
  ]);
  assert.deepEqual((await actions(auth, 'login')).at(-1)?.detail, { factor: 'device', name: 'laptop' });
});

test('a program that was refused, or whose time is over, gets nothing', async (t) => {
  const { auth, begin, ask, decide } = await setting(t);
  const one = await begin();
  assert.equal((await decide(one.user_code, 'refuse')).status, 'refused');
  await refused('conflict', decide(one.user_code, 'approve'));
  assert.deepEqual(await ask(one.device_code), { status: 'refused' });
  assert.deepEqual(await ask(one.device_code), { status: 'expired' });
  const late = await begin();
  await auth.db.run(`update device_logins set expires_at = now() - interval '1 second'`);
  await refused('not_found', decide(late.user_code, 'approve'));
  assert.deepEqual(await ask(late.device_code), { status: 'expired' });
  for (const code of ['', 'x', '💥', 'A'.repeat(100)]) assert.deepEqual(await ask(code), { status: 'expired' });
});

test('a session that an old login approved proves no more than that did', async (t) => {
  const { auth, begin, ask, decide } = await setting(t);
  const enter = async () => {
    const begun = await begin();
    await decide(begun.user_code, 'approve');
    const got = await ask(begun.device_code);
    assert.ok(got.status === 'approved');
    const caller = await auth.prove(got.token);
    assert.ok(caller);
    return isRecentLogin(caller, auth.clock.now());
  };
  assert.equal(await enter(), true);
  auth.clock.advance(11 * 60_000);
  assert.equal(await enter(), false);
});

test('of two programs that ask at once with one code, one gets the session', async (t) => {
  const { begin, ask, decide } = await setting(t);
  const begun = await begin();
  await decide(begun.user_code, 'approve');
  const answers = await Promise.all(Array.from({ length: 10 }, () => ask(begun.device_code)));
  assert.deepEqual(answers.map(({ status }) => status).sort(), ['approved', ...Array(9).fill('expired')]);
});

test('an approval ends with a new password, and with the account', async (t) => {
  const { auth, begin, ask, decide } = await setting(t);
  const stolen = await begin();
  await decide(stolen.user_code, 'approve');
  await setPassword(auth.outside, 'ann', 'another fine password');
  assert.deepEqual(await ask(stolen.device_code), { status: 'refused' });
  const again = await begin();
  await decide(again.user_code, 'approve', await auth.enter('ann', 'another fine password'));
  await disableUser(auth.outside, 'ann', { stop: false });
  assert.deepEqual(await ask(again.device_code), { status: 'refused' });
  assert.equal(await rows(auth), 0);
});

test('a program that asks too often is slowed down', async (t) => {
  const { auth, begin, ask } = await setting(t);
  const { device_code } = await begin();
  assert.deepEqual(await ask(device_code), { status: 'pending', interval: 2 });
  assert.deepEqual(await ask(device_code), { status: 'slow_down', interval: 7 });
  assert.deepEqual(await ask(device_code), { status: 'slow_down', interval: 12 });
  await waited(auth);
  assert.deepEqual(await ask(device_code), { status: 'pending', interval: 12 });
});

test('five wrong codes end the login that they begin like, and a user who enters five waits', async (t) => {
  const { auth, begin, ask, decide } = await setting(t);
  const begun = await begin();
  const other = begun.user_code.endsWith('C') ? 'D' : 'C';
  const wrong = begun.user_code.slice(0, -1) + other;
  for (let i = 0; i < 5; i++) {
    await forgiven(auth);
    await refused('not_found', decide(wrong, 'approve'));
  }
  await forgiven(auth);
  await refused('not_found', decide(begun.user_code, 'approve'));
  assert.deepEqual(await ask(begun.device_code), { status: 'expired' });

  await forgiven(auth);
  const next = await begin();
  for (let i = 0; i < 5; i++) await refused('not_found', decide('????', 'show'));
  const refusal = await refused('too_many_attempts', decide(next.user_code, 'approve'));
  assert.ok((refusal.retryAfter ?? 0) >= 1);
  assert.equal((await actions(auth, 'device.blocked')).length, 1);
  // Others go on.
  await addUser(auth.outside, 'bob', PASSWORD);
  assert.equal((await decide(next.user_code, 'approve', await auth.enter('bob'))).status, 'approved');
});

test('ten thousand guesses open nothing', async (t) => {
  const { auth, ann, begin, ask, decide } = await setting(t);
  const waiting = await Promise.all(Array.from({ length: 20 }, (_, n) => begin(`machine ${n}`, `203.0.113.${n}`)));
  const outcomes = new Map<string, number>();
  const note = (what: string) => outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
  const tried = (work: Promise<{ status: string }>) =>
    work.then(
      ({ status }) => note(status),
      (error: unknown) => note(error instanceof Refusal ? error.code : 'fault'),
    );
  for (let sent = 0; sent < 10_000; sent += 50) {
    await Promise.all(
      Array.from({ length: 50 }, (_, n) => tried(n % 2 === 0 ? decide(randomCode(), 'approve') : ask(randomCode()))),
    );
  }
  assert.equal(
    [...outcomes.values()].reduce((sum, count) => sum + count, 0),
    10_000,
  );
  assert.deepEqual([...outcomes.keys()].sort(), ['expired', 'not_found', 'too_many_attempts']);
  // What was looked at; the rest was turned away before.
  assert.ok((outcomes.get('not_found') ?? 0) < 30, `${outcomes.get('not_found')}`);
  assert.equal((await auth.call(listSessions, ann)).length, 1);
  for (const { device_code } of waiting) assert.equal((await ask(device_code, '192.0.2.99')).status, 'pending');
});

test('logins that wait are bounded, and codes are kept as keyed hashes', async (t) => {
  const { auth, begin } = await setting(t);
  const { user_code, device_code } = await begin();
  const kept = JSON.stringify(
    await auth.db.many(z.record(z.string(), z.unknown()), 'select to_jsonb(d) as row from device_logins d'),
  );
  for (const part of [user_code, user_code.replace('-', ''), user_code.slice(0, 4), device_code])
    assert.ok(!kept.includes(part));
  for (let i = 0; i < 19; i++) await begin();
  await refused('too_many_attempts', begin());
  auth.clock.advance(600_000);
  await refused('overloaded', begin());
  await begin('elsewhere', '203.0.113.9');
  const ofSite = Array.from({ length: 81 }, (_, n) => () => begin('laptop', `2001:db8:0:${n.toString(16)}::1`));
  for (const one of ofSite.slice(0, 80)) await one();
  await refused('too_many_attempts', ofSite[80]?.() ?? Promise.resolve());
  await auth.db.run(`update device_logins set expires_at = now() - interval '1 second'`);
  await begin();
  assert.equal(await rows(auth), 1, 'what is over is gone');
});

test('the address of the page has the port that was asked, and no host of the client', async (t) => {
  const { auth } = await setting(t);
  const server = await serve(auth, {});
  const begin = (host: string) =>
    new Promise<string>((resolve, reject) => {
      const url = `http://127.0.0.1:${server.port}/api/device`;
      const sent = httpRequest(url, { method: 'POST', headers: { host }, agent: false }, (reply) =>
        json(reply).then((value) => resolve(begun.parse(value).verification_url), reject),
      );
      sent.on('error', reject).end(JSON.stringify({ name: 'laptop' }));
    });
  assert.equal(await begin('troupe.test:8443'), 'https://troupe.test:8443/device');
  assert.equal(await begin('auth.troupe.test:8443'), 'https://troupe.test:8443/device');
  for (const host of [
    'troupe.test',
    'troupe.test:443',
    'evil.test:8443',
    '127.0.0.1:7001',
    '[::1]:1',
    'eviltroupe.test:1',
  ])
    assert.equal(await begin(host), 'https://troupe.test/device', host);
});
