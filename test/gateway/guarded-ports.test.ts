/** Ports with a password, at a whole gateway on a real database. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  basic,
  cookieIn,
  hostOf,
  OTHER,
  OWN,
  OWN_NAME,
  openGuarded,
  type Visit,
  type VisitorAnswer,
} from '../support/gateway/guards.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const PASSWORD = 'open sesame, please';

/** A gateway with a password at OWN, and what its program was sent. */
async function open(t: TestContext) {
  const seen: { readonly url: string; readonly cookie: string; readonly authorization: string }[] = [];
  const origin = await httpOrigin(t, ({ url = '', headers }, response) => {
    seen.push({ url, cookie: headers.cookie ?? '', authorization: headers.authorization ?? '' });
    response.setHeader('Cache-Control', 'public, max-age=30');
    for (const name of ['CDN-Cache-Control', 'Surrogate-Control']) response.setHeader(name, 'max-age=60');
    response.setHeader('X-Accel-Expires', '60');
    if (url !== '/kept')
      response.setHeader('Set-Cookie', ['__Host-troupe-access=forged; Secure; Path=/', 'own=1; Path=/']);
    response.end(`the page, time ${seen.length}`);
  });
  const gateway = await openGuarded(t, origin);
  await gateway.guard(OWN, { password: PASSWORD });
  await answers(gateway.visit, {}, 401);
  return { ...gateway, seen };
}

/** Rules count within 5 s. */
async function answers(visit: (of: Visit) => Promise<VisitorAnswer>, of: Visit, status: number) {
  const tried = async () => {
    const answer = await visit(of).catch(() => undefined);
    return answer?.status === status ? answer : undefined;
  };
  return until(tried, { what: `an answer with ${status}`, timeoutMs: 60_000 });
}

test('a port with a password asks for it, before anything of the request reaches the container', async (t) => {
  const { visit, seen, ports } = await open(t);
  const { headers, text } = await visit();
  assert.equal(headers['www-authenticate'], `Basic realm="${hostOf(OWN)}", charset="UTF-8"`);
  assert.equal(headers['cache-control'], 'no-store');
  assert.match(text, /^This page is for those who have its password\./);
  for (const method of ['POST', 'OPTIONS', 'HEAD']) assert.equal((await visit({ method })).status, 401, method);
  for (const authorization of ['Basic', 'Basic !', `Basic ${Buffer.from('nothing').toString('base64')}`, 'Bearer x'])
    assert.equal((await visit({ headers: { authorization } })).status, 401, authorization);
  assert.equal((await visit({ headers: basic('something else') })).status, 401);
  // Plain HTTP is sent to HTTPS and asks nothing.
  const plain = await exchange(ports.http, `GET /x HTTP/1.1\r\nHost: ${hostOf(OWN)}\r\nConnection: close\r\n\r\n`);
  assert.match(plain, /^HTTP\/1\.1 308 /);
  assert.doesNotMatch(plain, /WWW-Authenticate/i);
  assert.deepEqual(seen, []);
});

test('the right password opens it, and a cookie from then on; the container sees neither', async (t) => {
  const { visit, seen } = await open(t);
  const first = await visit({ headers: { ...basic(PASSWORD), cookie: 'a=b; __Host-troupe-access-8000=x; c=d' } });
  assert.equal(first.status, 200);
  const line = first.headers['set-cookie']?.find((one) => one.startsWith('__Host-troupe-access=')) ?? '';
  assert.match(line, /; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=43200$/);
  assert.ok(!line.includes('forged') && first.headers['set-cookie']?.includes('own=1; Path=/'));
  const cookie = cookieIn(first);
  // A program's own credentials pass; the password that the browser repeats does not.
  const again = await visit({ headers: { cookie, authorization: 'Bearer of the program' } });
  assert.deepEqual([again.status, cookieIn(again)], [200, '']);
  await visit({ headers: { cookie: `${cookie}; e=f`, ...basic(PASSWORD, 'another name') } });
  await visit({ headers: { cookie, ...basic('of the program') } });
  assert.deepEqual(
    seen.map(({ cookie: own, authorization }) => [own, authorization]),
    [
      ['a=b; c=d', ''],
      ['', 'Bearer of the program'],
      ['e=f', ''],
      ['', basic('of the program').authorization],
    ],
  );
  // In other letters of Unicode it is the same one.
  assert.equal((await visit({ headers: basic(`${PASSWORD}!`) })).status, 401);
});

test('a page of another host cannot act as its visitor, by cookie or by password; a link to the port works', async (t) => {
  const { visit, seen } = await open(t);
  const cookie = cookieIn(await visit({ headers: basic(PASSWORD) }));
  const [own, sibling] = [`https://${hostOf(OWN)}`, `https://${hostOf(OTHER)}`];
  const fetched = (site: string, mode: string, dest: string) => ({
    'sec-fetch-site': site,
    'sec-fetch-mode': mode,
    'sec-fetch-dest': dest,
  });
  const handshake = { connection: 'Upgrade', upgrade: 'websocket' };
  const before = seen.length;
  for (const [method, headers] of [
    ['GET', { ...handshake, origin: sibling }],
    ['POST', { origin: sibling }],
    ['POST', { origin: 'null' }],
    ['POST', { origin: own.replace('https', 'http') }],
    ['POST', { origin: `${own}.example.org` }],
    ['POST', { origin: `https://${hostOf(OWN)}@example.org` }],
    ['GET', fetched('same-site', 'no-cors', 'image')],
    ['GET', fetched('same-site', 'navigate', 'iframe')],
    ['GET', fetched('cross-site', 'cors', 'empty')],
    ['POST', fetched('same-site', 'navigate', 'document')],
    ['POST', { ...fetched('cross-site', 'navigate', 'document'), origin: 'https://example.org' }],
  ] as const) {
    for (const proof of [{ cookie }, basic(PASSWORD)]) {
      const { status, text } = await visit({ method, headers: { ...headers, ...proof } });
      assert.deepEqual([status, text.slice(0, 20)], [403, 'Pages of other hosts'], JSON.stringify({ method, headers }));
    }
  }
  assert.equal(seen.length, before);
  for (const [method, headers] of [
    ['GET', fetched('cross-site', 'navigate', 'document')],
    ['GET', fetched('none', 'navigate', 'document')],
    ['POST', { origin: own }],
    ['POST', { ...fetched('same-origin', 'navigate', 'document'), origin: 'null' }],
    // Another port of the host is of the same owner.
    ['POST', { ...fetched('same-site', 'cors', 'empty'), origin: `${own}:8000` }],
    ['DELETE', {}],
  ] as const)
    assert.equal(
      (await visit({ method, headers: { ...headers, cookie } })).status,
      200,
      JSON.stringify({ method, headers }),
    );
});

test('a cookie opens its own rule and host alone, and only while both last', async (t) => {
  const { visit, guard, clock } = await open(t);
  const cookie = cookieIn(await visit({ headers: basic(PASSWORD) }));
  await guard(OTHER, { password: PASSWORD });
  await answers(visit, { host: hostOf(OTHER) }, 401);
  assert.equal((await visit({ headers: { cookie } })).status, 200);
  assert.equal((await visit({ host: hostOf(OTHER), headers: { cookie } })).status, 401);
  assert.equal((await visit({ host: OWN_NAME, headers: { cookie } })).status, 401);
  const value = cookie.slice(cookie.indexOf('=') + 1);
  const [id = '', end = '', tag = '', code = ''] = value.split('.');
  const later = (Number.parseInt(end, 36) + 1).toString(36);
  for (const forged of [
    `${id}.${later}.${tag}.${code}`,
    `${id}.${end}..${code}`,
    `${id}.${end}.${tag}.${'A'.repeat(43)}`,
    `${'A'.repeat(11)}.${end}.${tag}.${code}`,
    '',
    value.slice(1),
  ])
    assert.equal((await visit({ headers: { cookie: `__Host-troupe-access=${forged}` } })).status, 401, forged);
  // One that is forged takes nothing from the right one beside it.
  assert.equal((await visit({ headers: { cookie: `__Host-troupe-access=x; ${cookie}` } })).status, 200);
  clock.advance(12 * 3_600_000);
  assert.equal((await visit({ headers: { cookie } })).status, 401);
  clock.advance(-12 * 3_600_000);
  // The same password at a rule in its place.
  await guard(OWN, { password: PASSWORD });
  await answers(visit, { headers: { cookie } }, 401);
  assert.equal((await visit({ headers: basic(PASSWORD) })).status, 200);
});

test('a hostname of the owner that leads through the rule is guarded as well, and so are upgrades', async (t) => {
  const { visit, seen } = await open(t);
  await answers(visit, { host: OWN_NAME }, 401);
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket' };
  for (const host of [OWN_NAME, hostOf(OWN)]) {
    assert.equal((await visit({ host, headers: upgrade })).status, 401, host);
    assert.equal((await visit({ host, headers: { ...upgrade, ...basic('wrong password') } })).status, 401, host);
  }
  assert.deepEqual(seen, []);
  const opened = await visit({ host: OWN_NAME, headers: basic(PASSWORD) });
  assert.equal(opened.status, 200);
  assert.equal((await visit({ host: OWN_NAME, headers: { cookie: cookieIn(opened) } })).status, 200);
});

test('what a guarded port answers is not kept, and nothing that was kept before is shown there', async (t) => {
  const { visit, guard, db, seen } = await open(t);
  const cookie = cookieIn(await visit({ headers: basic(PASSWORD) }));
  const inside = { path: '/kept', headers: { cookie } };
  assert.notEqual((await visit(inside)).text, (await visit(inside)).text);
  // Nor by caches in front, least of all with the cookie in it.
  const caching = ({ headers }: VisitorAnswer) => [
    headers['cache-control'],
    ...['cdn-cache-control', 'surrogate-control', 'x-accel-expires'].map((name) => headers[name]),
  ];
  const nothing = [undefined, undefined, undefined];
  assert.deepEqual(caching(await visit(inside)), ['public, max-age=30, private', ...nothing]);
  const given = await visit({ path: '/kept', headers: basic(PASSWORD) });
  assert.deepEqual(caching(given), ['public, max-age=30, private, no-store', ...nothing]);
  // Open to all it is kept; guarded again, it is not shown to those who have it not, or as it was.
  await db.run(`update ingress_rules set access = 'public', access_hash = null where container_id = $1`, [OWN]);
  await db.run('update containers set status = status where id = $1', [OWN]);
  const kept = await answers(visit, { path: '/kept' }, 200);
  assert.equal((await visit({ path: '/kept' })).text, kept.text);
  await guard(OWN, { password: PASSWORD });
  await answers(visit, { path: '/kept' }, 401);
  const count = seen.length;
  const fresh = await visit({ path: '/kept', headers: basic(PASSWORD) });
  assert.deepEqual([fresh.status, fresh.text, seen.length], [200, `the page, time ${count + 1}`, count + 1]);
});

test('wrong passwords are limited for a network and rule; whoever was let in before goes on', async (t) => {
  const { visit, guard, seen } = await open(t);
  const cookie = cookieIn(await visit({ headers: basic(PASSWORD) }));
  const wrong = await Promise.all(
    Array.from({ length: 30 }, async (_, n) => visit({ headers: basic(`wrong password ${n}`) })),
  );
  const count = (status: number) => wrong.filter((answer) => answer.status === status).length;
  assert.ok(count(401) <= 10, JSON.stringify(wrong.map(({ status }) => status)));
  assert.equal(count(401) + count(429) + count(503), 30);
  const blocked = await until(
    async () => {
      const answer = await visit({ headers: basic('yet another one') });
      return answer.status === 429 ? answer : undefined;
    },
    { what: 'it is blocked' },
  );
  assert.ok(Number(blocked.headers['retry-after']) >= 1);
  // Nobody learns which one is right meanwhile.
  assert.equal((await visit({ headers: basic(PASSWORD) })).status, 429);
  assert.equal((await visit({ headers: { cookie } })).status, 200);
  await guard(OTHER, { password: PASSWORD });
  await answers(visit, { host: hostOf(OTHER) }, 401);
  assert.equal((await visit({ host: hostOf(OTHER), headers: basic(PASSWORD) })).status, 200);
  assert.equal(seen.length, 3);
});

test('many requests with the right password at once are one look at it, and none is a failure', async (t) => {
  const { visit } = await open(t);
  const answered = await Promise.all(Array.from({ length: 40 }, () => visit({ headers: basic(PASSWORD) })));
  assert.deepEqual([...new Set(answered.map(({ status }) => status))], [200]);
});

test('a container that is stopped is guarded as well', async (t) => {
  const { visit, stopAll } = await open(t);
  await stopAll();
  await answers(visit, { headers: basic(PASSWORD) }, 503);
  assert.equal((await visit()).status, 401);
});

test('behind a trusted proxy that ended TLS it asks as well, and whatever others say of themselves', async (t) => {
  const origin = await httpOrigin(t, (_, response) => response.end('the page'));
  const proxies = { isTrusted: (address: string) => address === '127.0.0.1', sendHeader: false };
  const { guard, visit, ports } = await openGuarded(t, origin, { proxies });
  await guard(OWN, { password: PASSWORD });
  await answers(visit, {}, 401);
  const ask = (host: string, more: string) =>
    exchange(ports.http, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${more}\r\n`);
  for (const host of [hostOf(OWN), OWN_NAME]) {
    assert.match(await ask(host, 'X-Forwarded-Proto: https\r\n'), /^HTTP\/1\.1 401 /, host);
    assert.match(await ask(host, 'X-Forwarded-Proto: http\r\n'), /^HTTP\/1\.1 308 /, host);
    const line = `X-Forwarded-Proto: https\r\nAuthorization: ${basic(PASSWORD).authorization}\r\n`;
    assert.match(await ask(host, line), /^HTTP\/1\.1 200 .*the page$/s, host);
  }
});

test('a hostname that leads to the port inside of a rule is asked by that rule', async (t) => {
  const origin = await httpOrigin(t, (_, response) => response.end('the page'));
  const { visit, guard, remove, map } = await openGuarded(t, origin);
  await guard(OWN, { password: PASSWORD });
  map(OWN, origin);
  const named = { host: OWN_NAME };
  const asked = await answers(visit, named, 401);
  assert.equal(asked.headers['www-authenticate'], `Basic realm="${OWN_NAME}", charset="UTF-8"`);
  const opened = await visit({ ...named, headers: basic(PASSWORD) });
  assert.equal(opened.text, 'the page');
  const cookie = cookieIn(opened);
  assert.equal((await visit({ ...named, headers: { cookie } })).text, 'the page');
  // The strictest of several asks.
  await guard(OWN, { port: 8444 });
  await answers(visit, { ...named, headers: { cookie } }, 401);
  assert.match((await visit(named)).text, /^This address is for its owner alone/);
  for (const port of [443, 8444]) await remove(OWN, port);
  assert.equal((await answers(visit, named, 200)).text, 'the page');
});
