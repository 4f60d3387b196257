/** Links by which users set passwords: the real service, called as a transport calls it, and over HTTP. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { z } from 'zod';
import { hashOfLinkToken, newPasswordLink } from '../../actors/auth/users/password-links.ts';
import { disableUser, enableUser } from '../../actors/auth/users/user-state.ts';
import { addUser, setPassword, writePassword } from '../../actors/auth/users/users.ts';
import {
  adminDisableUser,
  adminEndSessions,
  adminPasswordLink,
  adminRemoveUser,
  adminSetPassword,
} from '../../proto/auth/admin.ts';
import { createToken } from '../../proto/auth/api-tokens.ts';
import { changePassword, endOtherSessions, listSessions, login } from '../../proto/auth/endpoints.ts';
import { Refusal } from '../../proto/errors.ts';
import { readAudit } from '../../storage/audit.ts';
import { passwordLink, purgePasswordLinks, takePasswordLink } from '../../storage/auth/password-links.ts';
import { openDb } from '../../storage/db.ts';
import { untilSessions } from '../../storage/offboarding.ts';
import { linksOf, NEW, setting, tokenOf } from '../support/auth/password-links.ts';
import { authWithKey } from '../support/auth/second-factor.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { type AuthUnderTest, otherProcess, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { serve } from '../support/service/open-service.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const rows = (auth: AuthUnderTest) => auth.db.run('select from password_links');
const entries = async (auth: AuthUnderTest, action: string) =>
  (await readAudit(auth.outside, { limit: 1000, action })).map(
    ({ action: what, username, target, address, detail }) => {
      return { what, username, target, address, detail };
    },
  );

test('a user sets a password by a link once, which ends all of their sessions on all nodes', async (t) => {
  const { auth, ann, make, show, use } = await setting(t);
  const node = otherProcess(t, auth);
  const { token: mine } = await auth.login('ann', PASSWORD);
  assert.ok(await node.authenticate(mine));
  const token = await make();
  const shown = await show(token);
  assert.equal(shown.username, 'ann');
  assert.equal((await show(token)).expires_at, shown.expires_at, 'a look uses nothing up');

  assert.deepEqual(await use(token), { username: 'ann' });
  assert.equal(await auth.prove(mine), undefined, 'here at once');
  await until(async () => (await node.authenticate(mine)) === undefined, { what: 'the session is over elsewhere' });
  await refused('invalid_credentials', auth.login('ann', PASSWORD));
  assert.equal((await auth.call(listSessions, await auth.enter('ann', NEW))).length, 1);
  await refused('not_found', show(token));
  await refused('not_found', use(token, 'yet another password'));
  await auth.enter('ann', NEW);

  const { userId: target } = ann;
  const from = { target, username: 'admin', address: '192.0.2.1' };
  const detail = { username: 'ann', expires_at: shown.expires_at };
  const used = { what: 'password_link.use', target, username: 'ann', address: '198.51.100.7' };
  assert.deepEqual((await entries(auth, 'password_link')).slice(0, 2), [
    { what: 'password_link.create', ...from, detail },
    { ...used, detail: { sessions: 2 } },
  ]);
});

test('a link ends when its time is over, which the administrator chooses within bounds', async (t) => {
  const { auth, admin, ann, make, show, use } = await setting(t);
  const lasts = z.object({ seconds: z.number() });
  for (const [query, seconds] of [
    [{}, 86_400],
    [{ expires_in: '1h' }, 3600],
    [{ expires_in: '7d' }, 604_800],
  ] as const) {
    await make(query);
    const row = await auth.db.one(
      lasts,
      'select extract(epoch from expires_at - created_at)::int as seconds from password_links',
    );
    assert.equal(row?.seconds, seconds);
  }
  for (const expires_in of ['30d', 'never', '0', '']) {
    const input = { params: { id: ann.userId }, query: { expires_in } };
    await refused('invalid_request', (async () => auth.call(adminPasswordLink, admin, input))());
  }
  const token = await make();
  await auth.db.run(`update password_links set expires_at = now() - interval '1 second'`);
  await refused('not_found', show(token));
  await refused('not_found', use(token));
  await auth.login('ann', PASSWORD);
  assert.equal(await purgePasswordLinks(auth.db), 1);
});

test('a newer link voids the older, and so does every other change of the password or end of sessions', async (t) => {
  const { auth, admin, ann, make, show, use } = await setting(t);
  const [first, second] = [await make(), await make()];
  assert.equal(await rows(auth), 1);
  await refused('not_found', use(first));
  assert.equal((await show(second)).username, 'ann');
  await auth.call(changePassword, ann, { body: { current_password: PASSWORD, new_password: NEW } });
  await refused('not_found', use(second));
  const third = await make();
  await setPassword(auth.outside, 'ann', PASSWORD);
  await refused('not_found', use(third));
  const fourth = await make();
  await auth.call(adminSetPassword, admin, { params: { id: ann.userId } });
  await refused('not_found', use(fourth));
  await setPassword(auth.outside, 'ann', PASSWORD);
  const fifth = await make();
  await auth.call(adminEndSessions, admin, { params: { id: ann.userId } });
  await refused('not_found', use(fifth));
  const sixth = await make();
  await auth.call(endOtherSessions, await auth.enter('ann'));
  await refused('not_found', use(sixth));
  assert.equal(await rows(auth), 0);
});

test('disabling and removing a user void the link for good, and no new one is made meanwhile', async (t) => {
  const { auth, admin, ann, make, show, use } = await setting(t);
  const params = { id: ann.userId };
  const token = await make();
  await auth.call(adminDisableUser, admin, { params, query: {} });
  await refused('not_found', show(token));
  await refused('conflict', make());
  await enableUser(auth.outside, 'ann');
  await until(async () => (await untilSessions(auth.db, ann.userId)) === 0, { what: 'new sessions count' });
  await refused('not_found', use(token));
  await auth.login('ann', PASSWORD);

  const last = await make();
  await auth.call(adminRemoveUser, admin, { params });
  await refused('not_found', use(last));
  await until(async () => (await auth.db.run(`select from users where username = 'ann'`)) === 0, {
    what: 'ann is forgotten',
  });
  await refused('not_found', make());
  assert.equal(await rows(auth), 0);
});

test('a link whose user was disabled by a process that knows of no links opens nothing', async (t) => {
  const { auth, make, show, use } = await setting(t);
  const token = await make();
  await auth.db.run(`update users set disabled_at = now() where username = 'ann'`);
  await refused('not_found', show(token));
  await refused('not_found', use(token));
});

test('unknown, used, voided and expired links, and what can be none, are answered alike', async (t) => {
  const { auth, make, show, use } = await setting(t);
  const used = await make();
  await use(used);
  const voided = await make();
  const expired = await make();
  await auth.db.run(`update password_links set expires_at = now() - interval '1 second'`);
  const answers = new Set<string>();
  for (const token of [used, voided, expired, randomBytes(32).toString('base64url'), '', 'x', '💥', '\0', `${used} `])
    for (const ask of [show, use]) {
      const { code, message, retryAfter } = await refused('not_found', ask(token));
      answers.add(JSON.stringify({ code, message, retryAfter }));
    }
  assert.equal(answers.size, 1);
});

test('a password that nobody may have is refused, and the link holds on', async (t) => {
  const { auth, ann, make, use } = await setting(t);
  await auth.db.run(`update users set username = 'annabella' where id = $1`, [ann.userId]);
  const token = await make();
  for (const bad of ['short', 'password', 'x'.repeat(257), 'with \0 in it', 'Annabella'])
    await refused('invalid_request', (async () => use(token, bad))());
  await use(token);
});

test('of many who use a link at once one sets the password', async (t) => {
  const { auth, make, use } = await setting(t);
  const token = await make();
  const passwords = Array.from({ length: 10 }, (_, n) => `the password number ${n}`);
  const outcomes = await Promise.all(
    passwords.map((password, n) =>
      use(token, password, `203.0.113.${n}`).then(
        () => password,
        (error: unknown) => (error instanceof Refusal ? error.code : error),
      ),
    ),
  );
  const [winner, ...more] = passwords.filter((password) => outcomes.includes(password));
  assert.deepEqual(more, []);
  assert.deepEqual(
    outcomes.filter((outcome) => outcome !== winner),
    Array(9).fill('not_found'),
  );
  await auth.login('ann', winner ?? '');
});

test('a link that is used while its user is disabled or gets another one is used or refused', async (t) => {
  const { auth, make, use } = await setting(t);
  const tried = (work: Promise<unknown>) =>
    work.then(
      () => 'done',
      (error: unknown) => (error instanceof Refusal ? error.code : String(error)),
    );
  for (let round = 0; round < 8; round++) {
    const token = await make();
    const other = round % 2 === 0 ? disableUser(auth.outside, 'ann', { stop: false }) : make();
    const [used, did] = await Promise.all([tried(use(token)), tried(other)]);
    assert.ok(used === 'done' || used === 'not_found', used);
    assert.equal(did, 'done');
    await enableUser(auth.outside, 'ann');
    await refused('not_found', use(token));
    await auth.db.run('delete from login_attempts');
  }
});

test('whoever tried old passwords before may log in with the new one at once', async (t) => {
  const { auth, make, use } = await setting(t);
  for (let wrong = 0; wrong < 5; wrong++) await refused('invalid_credentials', auth.login('ann', 'wrong'));
  await refused('too_many_attempts', auth.login('ann', PASSWORD));
  await use(await make(), NEW, '192.0.2.1');
  auth.clock.advance(1000); // A node may believe a block for a second.
  await auth.login('ann', NEW);
});

test('a link stands for the password alone: the security key is asked for as before', async (t) => {
  const { auth, ann } = await authWithKey(t);
  await addUser(auth.outside, 'admin', PASSWORD);
  const { make, use } = linksOf(auth, await auth.enter('admin'), ann.userId);
  await use(await make());
  const reply = await auth.call(login, undefined, { body: { username: 'ann', password: NEW } });
  assert.ok('requires_2fa' in reply);
});

test('nobody but the login of the administrator makes a link', async (t) => {
  const { auth, admin, ann } = await setting(t);
  const server = await serve(auth, {});
  const make = async (token?: string) => {
    const reply = await fetch(`http://127.0.0.1:${server.port}/api/admin/users/${ann.userId}/password-link`, {
      method: 'POST',
      headers: { connection: 'close', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    });
    return reply.status;
  };
  const scopes = { [`compute.${admin.userId}`]: ['create', 'read', 'update', 'delete', 'start', 'stop'] };
  const { token: narrow } = await auth.call(createToken, admin, { body: { name: 'ci', scopes } });
  const session = async (name: string) => (await auth.login(name, PASSWORD)).token;
  assert.deepEqual(
    [await make(), await make('no.such.token'), await make(await session('ann')), await make(narrow)],
    [401, 401, 403, 403],
  );
  assert.equal(await rows(auth), 0);
  assert.equal(await make(await session('admin')), 200);
});

test('the token stands in no table, no entry of the audit trail and no line of the log', async (t) => {
  const { auth, ann } = await setting(t);
  const server = await serve(auth, {});
  const send = async (path: string, body: unknown, token?: string) => {
    const reply = await fetch(`http://127.0.0.1:${server.port}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        connection: 'close',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
    return { status: reply.status, json: z.record(z.string(), z.unknown()).parse(await reply.json()) };
  };
  const { token: session } = await auth.login('admin', PASSWORD);
  const made = await send(`/api/admin/users/${ann.userId}/password-link`, {}, session);
  const token = tokenOf(z.string().parse(made.json.url));
  const kept = async () => {
    const links = await auth.db.many(z.object({ row: z.unknown() }), 'select to_jsonb(l) as row from password_links l');
    const audit = await readAudit(auth.outside, { limit: 1000 });
    return JSON.stringify([links, audit, auth.log.lines]);
  };
  const texts = [await kept()];
  for (const body of [
    { token },
    { token, new_password: 'short' },
    { token, new_password: NEW },
    { token, new_password: NEW },
  ])
    for (const path of ['/api/password-link', '/api/password-link/use']) await send(path, body);
  texts.push(await kept());
  assert.ok(texts[1]?.includes('password_link.use'));
  for (const text of texts) for (const secret of [token, NEW, '#']) assert.ok(!text.includes(secret), secret);
});

test('the database role of the service is enough for all of it', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const roles = await database.serviceRoles();
  const db = openDb(roles.connectionOf('auth'), { log: silentLog, name: 'auth', max: 2 });
  t.after(() => db.close());
  const { id } = await addUser(db, 'ann', PASSWORD);
  const make = async () => {
    const { url } = await newPasswordLink(db, 'ann', { origin: 'https://troupe.test', expiresIn: '24h' });
    return hashOfLinkToken(tokenOf(url));
  };
  const first = await make();
  assert.equal((await passwordLink(db, first))?.userId, id);
  assert.equal((await db.tx((tx) => takePasswordLink(tx, first)))?.id, id);
  await db.tx((tx) => writePassword(tx, id, 'a hash', '192.0.2.0'));
  const second = await make();
  await disableUser(db, 'ann', { stop: false });
  assert.equal(await passwordLink(db, second), undefined);
  assert.equal(await purgePasswordLinks(db), 0);
});
