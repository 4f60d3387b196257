/** Ports for their owner alone, at a whole gateway on a real database: entries as the console makes them. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ENTRY_PATH, type PortGuard } from '../../proto/gateway/port-guard.ts';
import {
  basic,
  cookieIn,
  hostOf,
  OTHER,
  OWN,
  OWN_NAME,
  openGuarded,
  type VisitorAnswer,
} from '../support/gateway/guards.ts';
import { httpOrigin, rawOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const PAGE = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

async function open(t: TestContext, origin?: number) {
  const seen: string[] = [];
  const own = await httpOrigin(t, ({ url = '', headers }, response) => {
    seen.push(`${url} ${headers.cookie ?? ''}`);
    response.end('the page');
  });
  const gateway = await openGuarded(t, origin ?? own);
  const rules = { own: await gateway.guard(OWN), other: await gateway.guard(OTHER) };
  for (const id of [OWN, OTHER])
    await until(async () => (await gateway.visit({ host: hostOf(id) }).catch(() => undefined))?.status === 401, {
      what: 'the rule counts',
      timeoutMs: 15_000,
    });
  const guardOf = (containerId: string, rule: number): PortGuard => ({ containerId, port: 443, rule, hash: null });
  const entry = (path = '/', host = hostOf(OWN), guard = guardOf(OWN, rules.own)) =>
    `${ENTRY_PATH}?token=${gateway.proofs.entry(guard, host, path, gateway.clock.now()).token}`;
  return { ...gateway, rules, seen, guardOf, entry };
}

function isRefused({ status, headers, text }: VisitorAnswer): void {
  assert.equal(status, 403);
  assert.deepEqual([headers['cache-control'], headers['referrer-policy']], ['no-store', 'no-referrer']);
  assert.match(text, /This way in is over.*<a href="\/">/);
  assert.equal(headers['set-cookie'], undefined);
}

test('a browser is sent to the console with where it wanted to go; all others are told', async (t) => {
  const { visit, ports, seen } = await open(t);
  const host = `${hostOf(OWN)}:${ports.https}`;
  const sent = await visit({ host, path: '/a?b=c&d=%20e', headers: PAGE });
  assert.equal(sent.status, 302);
  const to = new URL(sent.headers.location ?? '');
  assert.deepEqual([to.origin, to.pathname], [`https://cloud.test:${ports.https}`, '/enter']);
  assert.deepEqual(
    [...to.searchParams],
    [
      ['host', hostOf(OWN)],
      ['port', '443'],
      ['path', '/a?b=c&d=%20e'],
    ],
  );
  assert.deepEqual([sent.headers['cache-control'], sent.headers['referrer-policy']], ['no-store', 'no-referrer']);
  const usual = await visit({ host: OWN_NAME, path: `/${'a'.repeat(2000)}`, headers: PAGE });
  assert.match(
    usual.headers.location ?? '',
    /^https:\/\/cloud\.test\/enter\?host=own\.example\.org&port=443&path=%2F$/,
  );
  // What another host may be made of is not led to.
  const odd = await visit({ path: '//evil.test/', headers: PAGE });
  assert.match(odd.headers.location ?? '', /&path=%2F$/);
  for (const visited of [
    { headers: {} },
    { method: 'POST', headers: PAGE },
    { headers: { ...PAGE, connection: 'Upgrade', upgrade: 'websocket' } },
    { headers: basic('anything at all') },
  ]) {
    const { status, text, headers } = await visit(visited);
    assert.deepEqual([status, headers['www-authenticate']], [401, undefined]);
    assert.match(text, /^This address is for its owner alone/);
  }
  assert.deepEqual(seen, []);
});

test('an entry lets its browser in once, and on to its path', async (t) => {
  const { visit, seen, entry, log } = await open(t);
  const path = entry('/a?b=c');
  const entered = await visit({ path });
  assert.deepEqual([entered.status, entered.headers.location], [303, '/a?b=c']);
  assert.deepEqual([entered.headers['cache-control'], entered.headers['referrer-policy']], ['no-store', 'no-referrer']);
  const cookie = cookieIn(entered);
  assert.equal((await visit({ path: '/a?b=c', headers: { cookie: `${cookie}; own=1` } })).text, 'the page');
  isRefused(await visit({ path }));
  // The same browser may load it again.
  assert.equal((await visit({ path, headers: { cookie } })).status, 303);
  assert.deepEqual(seen, ['/a?b=c own=1']);
  assert.equal((await visit({ host: hostOf(OTHER), headers: { cookie } })).status, 401);
  assert.equal((await visit({ host: OWN_NAME, headers: { cookie } })).status, 401);
  const token = path.slice(path.indexOf('=') + 1);
  await until(() => log.some((line) => line.includes(`${ENTRY_PATH}?token=...`)), { what: 'the access log' });
  assert.ok(!log.some((line) => line.includes(token)));
});

test('an entry counts at its rule and host alone, for a minute, and as it was made', async (t) => {
  const { visit, entry, clock, guard, rules, guardOf } = await open(t);
  isRefused(await visit({ path: ENTRY_PATH }));
  isRefused(await visit({ path: `${ENTRY_PATH}?token=` }));
  // Of another container, of the same one by another name, and of another tenant's name.
  isRefused(await visit({ path: entry('/', hostOf(OTHER), guardOf(OTHER, rules.other)) }));
  isRefused(await visit({ path: entry('/', hostOf(OWN), guardOf(OTHER, rules.other)) }));
  isRefused(await visit({ path: entry('/', OWN_NAME) }));
  isRefused(await visit({ host: OWN_NAME, path: entry() }));
  const [id, end = '', nonce, , code] = (entry().split('=')[1] ?? '').split('.');
  const evil = Buffer.from('//evil.test').toString('base64url');
  const good = Buffer.from('/').toString('base64url');
  const later = (Number.parseInt(end, 36) + 1000).toString(36);
  for (const token of [
    `${id}.${end}.${nonce}.${evil}.${code}`,
    `${id}.${later}.${nonce}.${good}.${code}`,
    `${id}.${end}.${nonce}.${good}.${'A'.repeat(43)}`,
  ])
    isRefused(await visit({ path: `${ENTRY_PATH}?token=${token}` }));
  // A path that leads elsewhere is none, whoever signed it.
  for (const path of ['//evil.test', '/\\evil.test', 'https://evil.test', '/a\nb', '/a b', ''])
    isRefused(await visit({ path: entry(path) }));
  const old = entry();
  clock.advance(60_000);
  isRefused(await visit({ path: old }));
  const cookie = cookieIn(await visit({ path: entry() }));
  const made = entry('/later');
  assert.equal((await visit({ headers: { cookie } })).status, 200);
  await guard(OWN);
  await until(async () => (await visit({ headers: { cookie } })).status === 401, {
    what: 'the rule in its place counts',
    timeoutMs: 15_000,
  });
  isRefused(await visit({ path: made }));
});

test('elsewhere the path of entries is the container’s own', async (t) => {
  const { visit, guard, seen } = await open(t);
  await guard(OWN, { password: 'open sesame, please' });
  const headers = basic('open sesame, please');
  await until(async () => (await visit({ path: ENTRY_PATH, headers })).status === 200, {
    what: 'the rule counts',
    timeoutMs: 15_000,
  });
  assert.ok(seen.includes(`${ENTRY_PATH} `));
});

test('a WebSocket opens with the cookie, which does not reach the container', async (t) => {
  let head = '';
  const origin = await rawOrigin(t, (socket) => {
    socket.on('data', (chunk) => {
      head += chunk.toString('latin1');
      if (head.includes('\r\n\r\n'))
        socket.end(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
            'Set-Cookie: __Host-troupe-access=forged; Secure; Path=/\r\nSet-Cookie: own=1\r\n\r\n',
        );
    });
  });
  const { visit, entry } = await open(t, origin);
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket' };
  assert.equal((await visit({ headers: upgrade })).status, 401);
  assert.equal(head, '');
  const cookie = cookieIn(await visit({ path: entry() }));
  const opened = await visit({ headers: { ...upgrade, cookie } });
  assert.deepEqual([opened.status, opened.headers['set-cookie']], [101, ['own=1']]);
  assert.doesNotMatch(head, /cookie/i);
});
