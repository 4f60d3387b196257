/** Sessions of browsers: the token in a cookie that scripts cannot read, and the list of a user's logins. */
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { test } from 'node:test';
import { z } from 'zod';
import { endOtherSessions, endSession, listSessions, renewSession, session } from '../../proto/auth/endpoints.ts';
import { purgeEndedSessions } from '../../storage/auth/sessions.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, otherProcess, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { DOMAIN } from '../support/service/node.ts';
import { openNotify } from '../support/service/notify.ts';
import { serve } from '../support/service/open-service.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const HOST = `${DOMAIN}:8443`;
const CONSOLE = { host: HOST, origin: `https://${HOST}`, 'sec-fetch-site': 'same-origin' };
const COOKIE = 'x-troupe-session';
/** Requests that carry the cookie, and are not of a page of the console. */
const STRANGERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'a page of a container': {
    host: HOST,
    origin: `https://abc.compute.${DOMAIN}:8443`,
    'sec-fetch-site': 'same-site',
  },
  'a page of a container that sends no Origin': { host: HOST, 'sec-fetch-site': 'same-site' },
  'a page elsewhere': { host: HOST, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
  'the same host on another port': { host: HOST, origin: `https://${DOMAIN}:9000`, 'sec-fetch-site': 'same-site' },
  'a page of this host that anybody on the way could write': { host: HOST, origin: `http://${HOST}` },
  'an opaque origin': { host: HOST, origin: 'null' },
  'a link or the address bar': { host: HOST, 'sec-fetch-site': 'none' },
  'a program': { host: HOST },
  'headers that contradict each other': { ...CONSOLE, origin: 'https://evil.example' },
};

interface Answer {
  readonly status: number;
  readonly json: Record<string, unknown>;
  readonly setCookie: string | undefined;
}

/** One request with exactly these headers, as a browser would send it. */
function ask(url: string, method: string, path: string, headers: Record<string, string>, body?: object) {
  return new Promise<Answer>((resolve, reject) => {
    const sent = httpRequest(url + path, { method, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => {
        const json = z
          .record(z.string(), z.unknown())
          .catch({})
          .parse(text === '' ? {} : JSON.parse(text));
        resolve({ status: response.statusCode ?? 0, json, setCookie: response.headers['set-cookie']?.[0] });
      });
    });
    sent.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function openServed(t: Parameters<typeof openAuth>[0]) {
  const auth = await openAuth(t);
  const url = `http://127.0.0.1:${(await serve(auth, {})).port}`;
  /** Logs in as a page of the console does, and returns the cookie as a browser sends it. */
  const enter = async (agent = 'a browser') => {
    const headers = { ...CONSOLE, [COOKIE]: 'cookie', 'user-agent': agent };
    const answer = await ask(url, 'POST', '/api/login', headers, { username: 'ann', password: PASSWORD });
    assert.equal(answer.status, 200);
    return { ...answer, cookie: answer.setCookie?.split(';', 1)[0] ?? '' };
  };
  return { auth, url, enter };
}

test('a page that asks for it gets its session in a cookie that scripts cannot read, and no token', async (t) => {
  const { url, enter } = await openServed(t);
  const before = performance.now();
  const { json, setCookie = '', cookie } = await enter();
  const tookS = Math.ceil((performance.now() - before) / 1000);
  assert.deepEqual(Object.keys(json).sort(), ['display_name', 'is_admin', 'user_id', 'username']);
  const form = /^__Host-troupe=[\w.-]+; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=(\d+)$/;
  assert.match(setCookie, form);
  // What is left of the session's hour: the session began while the answer was made.
  const leftS = Number(form.exec(setCookie)?.[1]);
  assert.ok(leftS <= 3600 && leftS >= 3599 - tookS, `${leftS}`);
  const shown = await ask(url, 'GET', '/api/session', { ...CONSOLE, cookie });
  assert.deepEqual([shown.status, shown.json.username], [200, 'ann']);
  assert.ok(Date.parse(String(shown.json.expires_at)) > Date.now());
  const plain = await ask(url, 'POST', '/api/login', CONSOLE, { username: 'ann', password: PASSWORD });
  assert.deepEqual(
    [typeof plain.json.token, plain.setCookie],
    ['string', undefined],
    'who does not ask gets the token',
  );
});

test('the cookie counts for pages of the very origin alone', async (t) => {
  const { url, enter } = await openServed(t);
  const { cookie } = await enter();
  for (const headers of [
    CONSOLE,
    { host: HOST, 'sec-fetch-site': 'same-origin' },
    { host: HOST, origin: CONSOLE.origin },
  ])
    assert.equal((await ask(url, 'GET', '/api/session', { ...headers, cookie })).status, 200);
  for (const [who, headers] of Object.entries(STRANGERS)) {
    assert.equal((await ask(url, 'GET', '/api/session', { ...headers, cookie })).status, 401, who);
    const body = { display_name: 'taken over' };
    assert.equal((await ask(url, 'PUT', '/api/settings/profile', { ...headers, cookie }, body)).status, 401, who);
  }
  const twice = `${cookie}; __Host-troupe=x`;
  assert.equal((await ask(url, 'GET', '/api/session', { ...CONSOLE, cookie: twice })).status, 401);
});

test('sockets take the cookie, too, and from the very origin alone', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  const at = `${notify.url.replace('http', 'ws')}/ws/notifications`;
  const cookie = `__Host-troupe=${ann.token}`;
  const socket = await websocket(t, at, { headers: { ...CONSOLE, cookie } });
  await notify.publish(ann, { title: 'hello' });
  assert.match(await socket.text(), /hello/);
  for (const [who, headers] of Object.entries(STRANGERS)) {
    const status = await websocket(t, at, { headers: { ...headers, cookie } }).then(
      async ({ closed }) => (await closed).code,
      (error: unknown) => (error instanceof UpgradeRefused ? error.status : 0),
    );
    // With an Origin of the platform's domain the refusal is a close code; pages elsewhere are told nothing.
    assert.ok(status === 401 || status === 4401 || status === 403, `${who}: ${status}`);
  }
});

test('logging out with the cookie ends that session on every node; with a token it ends nothing', async (t) => {
  const { auth, url, enter } = await openServed(t);
  const node = otherProcess(t, auth);
  const { cookie } = await enter();
  const token = cookie.slice(cookie.indexOf('=') + 1);
  const caller = await node.authenticate(token);
  assert.ok(caller);
  const ended: string[] = [];
  t.after(node.streams.watch(caller, undefined, (reason) => ended.push(reason)));

  for (const [who, headers] of Object.entries(STRANGERS))
    assert.equal((await ask(url, 'POST', '/api/logout', { ...headers, cookie })).setCookie, undefined, who);
  assert.equal((await ask(url, 'GET', '/api/session', { ...CONSOLE, cookie })).status, 200);

  const out = await ask(url, 'POST', '/api/logout', { ...CONSOLE, cookie });
  assert.deepEqual([out.status, out.json], [200, { status: 'ok' }]);
  assert.match(out.setCookie ?? '', /^__Host-troupe=; .*Max-Age=0$/);
  assert.equal((await ask(url, 'GET', '/api/session', { ...CONSOLE, cookie })).status, 401);
  await until(async () => (await node.authenticate(token)) === undefined, { what: 'it is out on the other node' });
  await until(() => ended.length === 1, { what: 'what it had open ends' });

  const bearer = (await auth.login('ann', PASSWORD)).token;
  const authorization = `Bearer ${bearer}`;
  assert.equal((await ask(url, 'POST', '/api/logout', { authorization })).status, 200);
  assert.equal((await ask(url, 'GET', '/api/session', { authorization })).status, 200);
});

test('logins are listed with their client and last use, and ended one by one or all others', async (t) => {
  const { auth, url, enter } = await openServed(t);
  const first = await enter('x'.repeat(300));
  const second = await enter('Firefox on a laptop');
  const third = await enter('a phone');
  await ask(url, 'GET', '/api/session', { ...CONSOLE, cookie: third.cookie });
  const ann = await auth.prove(third.cookie.slice(third.cookie.indexOf('=') + 1));
  assert.ok(ann);
  const listed = () => auth.call(listSessions, ann);
  await until(async () => typeof (await listed())[0]?.last_seen_at === 'number', { what: 'the last use is noted' });
  const all = await listed();
  assert.deepEqual(
    all.map(({ user_agent, is_current }) => [user_agent, is_current]),
    [
      ['a phone', true],
      ['Firefox on a laptop', false],
      ['x'.repeat(200), false],
    ],
  );
  const statusOf = async ({ cookie }: { cookie: string }) =>
    (await ask(url, 'GET', '/api/session', { ...CONSOLE, cookie })).status;
  const id = String(all[1]?.id);
  await auth.call(endSession, ann, { params: { id } });
  assert.deepEqual([await statusOf(first), await statusOf(second), await statusOf(third)], [200, 401, 200]);
  await refused('not_found', auth.call(endSession, ann, { params: { id } }));
  const bob = { ...ann, userId: (await auth.enter('ann')).userId.replace(/.$/, '0') };
  await refused('unauthorized', auth.call(endSession, bob, { params: { id } }));
  assert.deepEqual(await auth.call(endOtherSessions, ann), { ended: 2 });
  assert.deepEqual([await statusOf(first), await statusOf(third)], [401, 200]);
  assert.equal((await listed()).length, 1);
});

test('ending all others again leaves no entry in the audit trail, and ends a session that no list has', async (t) => {
  const { auth } = await openServed(t);
  const ann = await auth.enter('ann');
  const entries = () => auth.outside.run(`select from audit_log where action = 'session.end_others'`);
  for (let i = 0; i < 3; i++) assert.deepEqual(await auth.call(endOtherSessions, ann), { ended: 0 });
  assert.equal(await entries(), 1);
  const { token } = await auth.login('ann', PASSWORD);
  await auth.outside.run('delete from login_sessions where token_id <> $1', [ann.tokenId]);
  assert.deepEqual(await auth.call(endOtherSessions, ann), { ended: 0 });
  await until(async () => (await auth.prove(token)) === undefined, { what: 'the session is over' });
  await auth.login('ann', PASSWORD);
  assert.deepEqual(await auth.call(endOtherSessions, ann), { ended: 1 });
  assert.equal(await entries(), 2);
});

test('a session is prolonged as the same session, not past thirty days, and ends with all of its tokens', async (t) => {
  const { auth, url, enter } = await openServed(t);
  const { cookie } = await enter();
  auth.clock.advance(1_800_000);
  const headers = { ...CONSOLE, cookie, [COOKIE]: 'cookie' };
  const renewed = await ask(url, 'POST', '/api/session/renew', headers);
  assert.equal(renewed.status, 200);
  assert.deepEqual(Object.keys(renewed.json), ['expires_at']);
  const later = renewed.setCookie?.split(';', 1)[0] ?? '';
  assert.notEqual(later, cookie);
  auth.clock.advance(2_700_000);
  const statusOf = async (one: string) => (await ask(url, 'GET', '/api/session', { ...CONSOLE, cookie: one })).status;
  assert.deepEqual([await statusOf(cookie), await statusOf(later)], [401, 200], 'the first token is over by now');
  await ask(url, 'POST', '/api/logout', { ...CONSOLE, cookie: later });
  assert.equal(await statusOf(later), 401);
  const caller = await auth.enter('ann');
  await auth.db.run(
    `update login_sessions set created_at = now() - interval '31 days', expires_at = now() + interval '5 s'`,
  );
  const { expires_at } = await auth.call(renewSession, caller);
  assert.ok(Date.parse(expires_at) < Date.now() + 10_000, expires_at);
  await auth.db.run('delete from login_sessions');
  await refused('conflict', auth.call(renewSession, caller));
  assert.equal((await auth.call(session, caller)).username, 'ann');
});

test('ended sessions are forgotten once their tokens have expired', async (t) => {
  const { auth, url, enter } = await openServed(t);
  const { cookie } = await enter();
  await ask(url, 'POST', '/api/logout', { ...CONSOLE, cookie });
  assert.equal(await purgeEndedSessions(auth.db), 0);
  await auth.db.run(`update ended_sessions set expires_at = now() - interval '1 s'`);
  assert.equal(await purgeEndedSessions(auth.db), 1);
});
