/** Sessions that a browser keeps in a cookie: the real services, and requests as browsers send them. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { noteUse, startLastUse } from '../../actors/auth/tokens/last-use.ts';
import { setPassword } from '../../actors/auth/users/users.ts';
import { notifyNumbers } from '../../actors/notify/deps.ts';
import { recordSeen } from '../../storage/auth/sessions.ts';
import { stop, stopped } from '../../supervision/index.ts';
import { consoleHeaders, fromPage, type PageReply } from '../support/clients/console.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, PASSWORD, RELYING_PARTY } from '../support/service/auth.ts';
import { openService, serve } from '../support/service/open-service.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const HOST = `${RELYING_PARTY.id}:8443`;
const TENANT = `https://abcdefghijkl.compute.${HOST}`;
const ASKING = { 'x-troupe-session': 'cookie', 'user-agent': 'Browser/1.0' };
const NEW = 'another fine password';
const sessionsSchema = z.object({
  list: z.array(
    z.object({
      id: z.number(),
      is_current: z.boolean(),
      user_agent: z.string(),
      created_at: z.number(),
      last_seen_at: z.number(),
    }),
  ),
});

/** The authentication service, and another service in a process of its own, both behind real listeners. */
async function setting(t: TestContext) {
  const auth = await openAuth(t);
  const other = await openService(t, 'notify', ({ bus }) => ({ bus, numbers: notifyNumbers() }), {
    database: auth.database,
    domain: RELYING_PARTY.id,
    clock: auth.clock,
  });
  const [here, there] = [await serve(auth, {}), await serve(other, {})];
  const [authUrl, otherUrl] = [`http://127.0.0.1:${here.port}`, `http://127.0.0.1:${there.port}`];
  const socketUrl = `ws://127.0.0.1:${there.port}/ws/notifications`;
  const logIn = async (password = PASSWORD, headers: Record<string, string> = {}): Promise<PageReply> =>
    fromPage('POST', authUrl, '/api/login', {
      body: { username: 'ann', password },
      headers: { ...consoleHeaders(HOST), ...ASKING, ...headers },
    });
  const cookieOf = async (password?: string): Promise<string> => {
    const { cookie } = await logIn(password);
    assert.ok(cookie);
    return cookie;
  };
  /** What both services answer to a session, by status. */
  const statuses = async (headers: Record<string, string>) =>
    Promise.all([
      fromPage('GET', authUrl, '/api/session', { headers }).then(({ status }) => status),
      fromPage('GET', otherUrl, '/api/notifications/unread-count', { headers }).then(({ status }) => status),
    ]);
  const call = (method: string, path: string, cookie: string, body?: unknown, headers: Record<string, string> = {}) =>
    fromPage(method, authUrl, path, { body, headers: { ...consoleHeaders(HOST, cookie), ...headers } });
  const connect = (headers: Record<string, string>) => websocket(t, socketUrl, { headers });
  const refusedSocket = (headers: Record<string, string>) =>
    assert.rejects(connect(headers), (error) => error instanceof UpgradeRefused && error.status === 401);
  return { auth, authUrl, otherUrl, logIn, cookieOf, statuses, call, connect, refusedSocket };
}

test('a login that asks so comes in a cookie, opens calls and sockets of all services, and ends with the logout', async (t) => {
  const { logIn, statuses, call, connect, refusedSocket } = await setting(t);
  const reply = await logIn();
  assert.equal(reply.status, 200);
  assert.deepEqual(Object.keys(reply.json).sort(), ['display_name', 'expires_at', 'is_admin', 'user_id', 'username']);
  const [set = ''] = reply.headers['set-cookie'] ?? [];
  assert.match(set, /^__Host-troupe=[\w.-]+; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=(3600|3599)$/);
  const { cookie = '' } = reply;
  const own = consoleHeaders(HOST, cookie);
  assert.deepEqual(await statuses(own), [200, 200]);
  const session = await call('GET', '/api/session', cookie);
  assert.equal(session.json.expires_at, reply.json.expires_at);
  const socket = await connect(own);

  const out = await call('POST', '/api/logout', cookie);
  assert.deepEqual([out.status, out.cookie], [200, '']);
  assert.match(out.headers['set-cookie']?.[0] ?? '', /; Max-Age=0$/);
  const began = performance.now();
  assert.deepEqual(await socket.closed, { code: 1008, reason: 'token revoked' });
  await until(async () => (await statuses(own)).every((status) => status === 401), { what: 'the session is over' });
  assert.ok(performance.now() - began < 1000, 'within a second, in the other process too');
  await refusedSocket(own);
  // Again, and without one, it is the same answer.
  assert.equal((await call('POST', '/api/logout', cookie)).status, 200);
});

test('a bearer token stays what it was: in the body, and good after the logout', async (t) => {
  const { authUrl } = await setting(t);
  const reply = await fromPage('POST', authUrl, '/api/login', { body: { username: 'ann', password: PASSWORD } });
  assert.equal(reply.headers['set-cookie'], undefined);
  assert.deepEqual(Object.keys(reply.json).sort(), ['display_name', 'is_admin', 'token', 'user_id', 'username']);
  const headers = { authorization: `Bearer ${String(reply.json.token)}` };
  const out = await fromPage('POST', authUrl, '/api/logout', { headers });
  assert.deepEqual([out.status, out.json, out.cookie], [200, { status: 'ok' }, undefined]);
  assert.equal((await fromPage('GET', authUrl, '/api/session', { headers })).status, 200);
});

test('the cookie counts only for pages of exactly the origin of the console', async (t) => {
  const { cookieOf, statuses, connect, refusedSocket, call, logIn } = await setting(t);
  const token = await cookieOf();
  const cookie = `__Host-troupe=${token}`;
  const strangers: Record<string, string>[] = [
    { host: HOST, cookie },
    { host: HOST, cookie, origin: TENANT, 'sec-fetch-site': 'same-site' },
    { host: HOST, cookie, origin: TENANT },
    { host: HOST, cookie, 'sec-fetch-site': 'same-site' },
    { host: HOST, cookie, 'sec-fetch-site': 'cross-site' },
    { host: HOST, cookie, 'sec-fetch-site': 'none' },
    { host: HOST, cookie, 'sec-fetch-site': 'same-origin', origin: TENANT },
    { host: HOST, cookie, 'sec-fetch-site': 'same-site', origin: `https://${HOST}` },
    { host: HOST, cookie, origin: `https://${RELYING_PARTY.id}` },
    { host: HOST, cookie, origin: `https://${RELYING_PARTY.id}:9443` },
    { host: HOST, cookie, origin: `http://${HOST}` },
    { host: HOST, cookie, origin: `https://dash.${HOST}` },
    { host: HOST, cookie, origin: 'null' },
    { host: HOST, cookie, origin: 'https://evil.test' },
    // What a page of a container asks of its own host never comes here; if it did, it would be no console.
    { host: `abcdefghijkl.compute.${HOST}`, cookie, origin: TENANT, 'sec-fetch-site': 'same-origin' },
    { host: `auth.${HOST}`, cookie, origin: `https://auth.${HOST}`, 'sec-fetch-site': 'same-origin' },
  ];
  for (const headers of strangers) {
    assert.deepEqual(await statuses(headers), [401, 401], JSON.stringify(headers));
    await refusedSocket(headers);
    // Neither is anything begun or ended for them.
    const begun = await logIn(PASSWORD, { origin: '', 'sec-fetch-site': 'same-site', ...headers });
    assert.deepEqual([begun.status, begun.json.code, begun.cookie], [403, 'forbidden', undefined]);
    const out = await call('POST', '/api/logout', token, undefined, { 'sec-fetch-site': 'same-site', ...headers });
    assert.equal(out.cookie, undefined);
  }
  const own: Record<string, string>[] = [
    { host: HOST, cookie, 'sec-fetch-site': 'same-origin' },
    { host: HOST, cookie, origin: `https://${HOST}` },
    { host: '127.0.0.1', 'x-forwarded-host': HOST, cookie, origin: `https://${HOST}` },
    { host: RELYING_PARTY.id, cookie, origin: `https://${RELYING_PARTY.id}` },
    { host: `${RELYING_PARTY.id}:443`, cookie, origin: `https://${RELYING_PARTY.id}` },
  ];
  for (const headers of own) {
    assert.deepEqual(await statuses(headers), [200, 200], JSON.stringify(headers));
    (await connect(headers)).socket.terminate();
  }
  // What is said in the header or the query counts before the cookie.
  assert.deepEqual(await statuses({ ...consoleHeaders(HOST, token), authorization: 'Bearer nonsense' }), [401, 401]);
});

test('a new password ends a stolen cookie everywhere within a second, and keeps the one that asked', async (t) => {
  const { auth, cookieOf, statuses, call, connect } = await setting(t);
  const [mine, stolen] = [await cookieOf(), await cookieOf()];
  const thief = consoleHeaders(HOST, stolen);
  assert.deepEqual(await statuses(thief), [200, 200]);
  const socket = await connect(thief);
  const began = performance.now();
  const changed = await call('PUT', '/api/settings/password', mine, { current_password: PASSWORD, new_password: NEW });
  assert.equal(changed.status, 200);
  assert.equal((await socket.closed).code, 1008);
  await until(async () => (await statuses(thief)).every((status) => status === 401), { what: 'it is over' });
  assert.ok(performance.now() - began < 1000 + 1000, 'a second after the change, which hashes two passwords');
  assert.deepEqual(await statuses(consoleHeaders(HOST, mine)), [200, 200]);
  await setPassword(auth.outside, 'ann', PASSWORD);
  await until(async () => (await statuses(consoleHeaders(HOST, mine))).every((status) => status === 401));
});

test('sessions are listed with what they are used with, and ended one by one or all others at once', async (t) => {
  const { auth, cookieOf, logIn, statuses, call } = await setting(t);
  const mine = await cookieOf();
  const { cookie: phone = '' } = await logIn(PASSWORD, { 'user-agent': 'Phone'.repeat(60) });
  const tablet = await cookieOf();
  const listed = async (cookie: string) =>
    sessionsSchema.parse((await call('GET', '/api/settings/sessions', cookie)).json).list;
  const [, second, first] = await listed(mine);
  assert.deepEqual([first?.user_agent, first?.is_current], ['Browser/1.0', true]);
  assert.deepEqual([second?.user_agent, second?.is_current], ['Phone'.repeat(40), false]);

  const gone = await call('DELETE', `/api/settings/sessions/${second?.id}`, mine);
  assert.equal(gone.status, 200);
  await until(async () => (await statuses(consoleHeaders(HOST, phone))).every((status) => status === 401));
  assert.deepEqual(await statuses(consoleHeaders(HOST, tablet)), [200, 200]);
  assert.equal((await call('DELETE', `/api/settings/sessions/${second?.id}`, mine)).status, 404);
  for (const id of ['0', 'x', '99999999999999999999', '1.5'])
    assert.equal((await call('DELETE', `/api/settings/sessions/${id}`, mine)).status, 404, id);

  // Nobody ends what is somebody else's.
  await auth.db.run(
    `insert into users (id, username, display_name, password_hash) values ('bob000000000', 'bob', 'bob', '')`,
  );
  await auth.db.run(
    `insert into login_sessions (token_id, user_id, ip_address, expires_at)
     values ('bobs', 'bob000000000', '', now() + interval '1 hour')`,
  );
  const bobs = await auth.db.one(z.object({ id: z.number() }), `select id from login_sessions where token_id = 'bobs'`);
  assert.equal((await call('DELETE', `/api/settings/sessions/${bobs?.id}`, mine)).status, 404);

  assert.deepEqual((await call('DELETE', '/api/settings/sessions', mine)).json, { ended: 1 });
  await until(async () => (await statuses(consoleHeaders(HOST, tablet))).every((status) => status === 401));
  assert.deepEqual(await statuses(consoleHeaders(HOST, mine)), [200, 200]);
  assert.equal((await listed(mine)).length, 1);
  const actions = await auth.db.many(
    z.object({ action: z.string() }),
    `select action from audit_log where action like 'session.%' order by id`,
  );
  assert.deepEqual(
    actions.map(({ action }) => action),
    ['session.end', 'session.end_others'],
  );
});

test('a session is renewed under the same name, for at most thirty days, and what ends it ends all of its tokens', async (t) => {
  const { auth, authUrl, cookieOf, statuses, call } = await setting(t);
  const old = await cookieOf();
  auth.clock.advance(1_800_000);
  const renewed = await call('POST', '/api/session/renew', old);
  const { cookie: next = '' } = renewed;
  assert.deepEqual([renewed.status, Object.keys(renewed.json)], [200, ['expires_at']]);
  assert.ok(next !== '' && next !== old);
  assert.equal((await call('GET', '/api/session', next)).json.expires_at, renewed.json.expires_at);
  auth.clock.advance(2_400_000);
  assert.deepEqual(await statuses(consoleHeaders(HOST, old)), [401, 401], 'the first one has expired');
  assert.deepEqual(await statuses(consoleHeaders(HOST, next)), [200, 200]);
  // It is no new login: what wants a fresh one still does.
  const keyed = { body: { id: 'AAAA' }, headers: consoleHeaders(HOST, next) };
  assert.equal((await fromPage('POST', authUrl, '/api/settings/keys/delete', keyed)).json.code, 'proof_needed');

  const bearer = { headers: { authorization: `Bearer ${next}` } };
  const again = await fromPage('POST', authUrl, '/api/session/renew', bearer);
  assert.deepEqual([again.cookie, typeof again.json.token], [undefined, 'string']);
  await call('POST', '/api/logout', next);
  await until(async () =>
    (await statuses({ authorization: `Bearer ${String(again.json.token)}` })).every((status) => status === 401),
  );
  assert.equal((await fromPage('POST', authUrl, '/api/session/renew', bearer)).status, 401);

  // Day after day.
  let cookie = await cookieOf();
  const began = auth.clock.now();
  let expires = 0;
  for (let hour = 0; hour < 24 * 31; hour += 1) {
    const reply = await call('POST', '/api/session/renew', cookie);
    if (reply.status !== 200) break;
    cookie = reply.cookie ?? '';
    expires = Number(reply.json.expires_at);
    auth.clock.advance(3_500_000);
  }
  assert.ok(Math.abs(expires - Math.floor(began / 1000) - 30 * 86_400) <= 1, `${expires - began / 1000}`);
});

test('the list says when a session was used last, whichever service it was used at', async (t) => {
  const { auth, cookieOf, call } = await setting(t);
  const cookie = await cookieOf();
  const seen = async () => sessionsSchema.parse((await call('GET', '/api/settings/sessions', cookie)).json).list[0];
  const before = await seen();
  assert.equal(before?.last_seen_at, before?.created_at, 'when it began');
  const { tokenId } = (await auth.prove(cookie)) ?? { tokenId: '' };
  const actor = startLastUse(auth.system, { db: auth.db, log: auth.log });
  const at = (before?.created_at ?? 0) + 600;
  for (const late of [0, 100, 50]) noteUse(actor, tokenId, at + late, 'session');
  noteUse(actor, tokenId, at + 100, 'session');
  await until(async () => (await seen())?.last_seen_at === at + 100, { what: 'it is written down' });
  stop(actor);
  await stopped(actor);
  await recordSeen(auth.outside, new Map([[tokenId, at]]));
  assert.equal((await seen())?.last_seen_at, at + 100, 'never earlier');
});
