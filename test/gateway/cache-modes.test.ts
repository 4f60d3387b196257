/** What `cache` of a way in changes: nothing is kept that did not ask for it, or nothing at all; and what answers say. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import { ok, openCached, type Seen } from '../support/gateway/cache.ts';
import { failOnLeaks } from '../support/leaks.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** The hosts of the tests are ways in to one program: each is named for its mode. */
const openModes = (t: Cleanup, answer: (seen: Seen) => string | undefined) =>
  openCached(t, answer, {
    route: ({ host, target }, port) => ({
      forward: { host: '127.0.0.1', port },
      target,
      ...(host === 'unsaid.test' ? {} : { cache: modeOf(host) }),
    }),
  });

function modeOf(host: string): CacheMode {
  return host === 'off.test' ? 'off' : host === 'explicit.test' ? 'explicit' : 'default';
}

const statusOf = (head: string) => /\r\nCache-Status: ([^\r]*)/.exec(head)?.[1];
const FRESH = 'Cache-Control: max-age=60\r\n';

describe('with cache "explicit"', () => {
  const host = 'explicit.test';

  test('an app that says nothing of caching shows what is true now', async (t) => {
    let todos = '[]';
    const proxy = await openModes(t, ({ method, target, count }) => {
      if (method !== 'GET') todos = '["milk"]';
      return ok('Content-Type: application/json\r\nETag: W/"2"\r\n', target === '/time' ? String(count) : todos);
    });
    assert.equal((await proxy.ask('/todos', { host })).body, '[]');
    await proxy.ask('/todos/1', { method: 'PUT', host, body: 'x' });
    assert.equal((await proxy.ask('/todos', { host })).body, '["milk"]');
    const times = [await proxy.ask('/time', { host }), await proxy.ask('/time', { host })];
    assert.notEqual(times[0]?.body, times[1]?.body);
    assert.doesNotMatch(times[1]?.head ?? '', /\r\n(?:Age|Cache-Control):/);
  });

  test('what says itself how long it is fresh is given again that long, with its own Cache-Control', async (t) => {
    const proxy = await openModes(t, ({ count, target }) => {
      const date = new Date().toUTCString();
      const expires = `Date: ${date}\r\nExpires: ${new Date(Date.parse(date) + 20_000).toUTCString()}\r\n`;
      return ok(target === '/expires' ? expires : `Cache-Control: ${target.slice(1)}\r\n`, `answer ${count}`);
    });
    for (const path of ['/max-age=10', '/public,s-maxage=10', '/expires']) {
      const first = await proxy.ask(path, { host });
      const second = await proxy.ask(path, { host });
      assert.equal(second.isCached, true, path);
      assert.equal(second.body, first.body);
      assert.match(second.head, /\r\nAge: \d+\r\n/);
      assert.doesNotMatch(second.head, /no-store/);
      if (path !== '/expires') assert.ok(second.head.includes(`\r\nCache-Control: ${path.slice(1)}\r\n`), second.head);
    }
    proxy.advance(9000);
    assert.equal((await proxy.ask('/max-age=10', { host })).isCached, true);
    proxy.advance(1001);
    assert.equal((await proxy.ask('/max-age=10', { host })).isCached, false);
    for (const path of ['/public', '/max-age=0', '/no-cache', '/private,max-age=60', '/max-age=soon']) {
      await proxy.ask(path, { host });
      assert.equal((await proxy.ask(path, { host })).isCached, false, path);
    }
  });

  test('whoever changed something sees no page of before, also of other addresses', async (t) => {
    let version = 1;
    const proxy = await openModes(t, ({ method }) => {
      if (method === 'POST') version++;
      return ok(FRESH, `version ${version}`);
    });
    const as = (address: string) => ({ host, headers: `X-Forwarded-For: ${address}\r\n` });
    for (const address of ['192.0.2.1', '192.0.2.2'])
      assert.equal((await proxy.ask('/', as(address))).body, 'version 1');
    await proxy.ask('/todos', { method: 'POST', ...as('192.0.2.1'), body: 'x' });
    // What others are shown is as fresh as the app said that it may be.
    assert.equal((await proxy.ask('/', as('192.0.2.2'))).body, 'version 1');
    const own = await proxy.ask('/', as('192.0.2.1'));
    assert.deepEqual([own.body, own.isCached], ['version 2', false]);
    assert.equal((await proxy.ask('/', as('192.0.2.1'))).isCached, true);
    assert.equal((await proxy.ask('/', as('192.0.2.2'))).body, 'version 2');
    // By another way in to the same program, where nothing is kept.
    await proxy.ask('/todos', { method: 'POST', ...as('192.0.2.1'), host: 'off.test', body: 'x' });
    assert.equal((await proxy.ask('/', as('192.0.2.1'))).body, 'version 3');
  });

  test('a change evicts its own address and those that its answer names', async (t) => {
    const proxy = await openModes(t, ({ method }) =>
      method === 'GET' ? ok(FRESH, 'x') : ok('Location: /new\r\nContent-Location: /list\r\n', '', '201 Created'),
    );
    const other = { host, headers: 'X-Forwarded-For: 192.0.2.9\r\n' };
    for (const path of ['/it', '/new', '/list', '/else']) await proxy.ask(path, other);
    await proxy.ask('/it', { host, method: 'DELETE' });
    for (const path of ['/it', '/new', '/list']) assert.equal((await proxy.ask(path, other)).isCached, false, path);
    assert.equal((await proxy.ask('/else', other)).isCached, true);
  });

  test('nobody waits for the answer of another before one declared itself fresh', async (t) => {
    const held: (() => void)[] = [];
    const proxy = await openCached(
      t,
      (_, socket) => {
        held.push(() => socket.write(ok(FRESH, 'x')));
        return undefined;
      },
      { route: ({ target }, port) => ({ forward: { host: '127.0.0.1', port }, target, cache: 'explicit' }) },
    );
    const first = [proxy.ask('/x'), proxy.ask('/x')];
    await until(() => held.length === 2, { what: 'both requests at the origin' });
    for (const answer of held.splice(0)) answer();
    await Promise.all(first);
    proxy.advance(31_000);
    const later = [proxy.ask('/x'), proxy.ask('/x')];
    await until(() => proxy.cache.numbers().waited === 1, { what: 'one that waits' });
    held[0]?.();
    for (const { body } of await Promise.all(later)) assert.equal(body, 'x');
    assert.equal(proxy.seen.length, 3);
  });

  test('what was kept by another mode is not given', async (t) => {
    let mode: CacheMode = 'default';
    const proxy = await openCached(t, ({ count }) => ok('', `answer ${count}`), {
      route: ({ target }, port) => ({ forward: { host: '127.0.0.1', port }, target, cache: mode }),
    });
    await proxy.ask('/x');
    assert.equal((await proxy.ask('/x')).isCached, true);
    mode = 'explicit';
    assert.equal((await proxy.ask('/x')).isCached, false);
  });
});

test('with cache "off" nothing is kept or given, and nothing is said of it', async (t) => {
  const proxy = await openModes(t, ({ count }) => ok(FRESH, `answer ${count}`));
  const host = 'off.test';
  const answers = [await proxy.ask('/x', { host }), await proxy.ask('/x', { host })];
  assert.deepEqual(
    answers.map(({ body, head }) => [body, head.includes('Cache-Control: max-age=60'), statusOf(head)]),
    [
      ['answer 0', true, undefined],
      ['answer 1', true, undefined],
    ],
  );
  assert.equal(proxy.cache.numbers().stored, 0);
});

test('without a word of it, as with "default", section 4.5 of the interface holds', async (t) => {
  const proxy = await openModes(t, ({ count }) => ok('', `answer ${count}`));
  for (const host of ['unsaid.test', 'default.test']) {
    const first = await proxy.ask('/x', { host });
    const second = await proxy.ask('/x', { host });
    assert.deepEqual([second.body, second.isCached], [first.body, true]);
    assert.match(second.head, /\r\nCache-Control: no-store\r\n/);
  }
});

test('Cache-Status says whether an answer is from memory, and else why not', async (t) => {
  const proxy = await openModes(t, ({ target }) =>
    ok(target === '/fresh' ? `${FRESH}Cache-Status: inner; hit\r\n` : '', target),
  );
  const host = 'explicit.test';
  const ask = async (path: string, options: Parameters<typeof proxy.ask>[1] = {}) =>
    statusOf((await proxy.ask(path, { host, ...options })).head.replace('Cache-Status: inner; hit\r\n', ''));
  assert.equal(await ask('/fresh'), 'troupe; fwd=miss; stored');
  assert.equal(await ask('/fresh'), 'troupe; hit; ttl=30');
  proxy.advance(2000);
  assert.equal(await ask('/fresh'), 'troupe; hit; ttl=28');
  // Those of caches before it stay, in their order (RFC 9211, section 2).
  assert.match(
    (await proxy.ask('/fresh', { host })).head,
    /Cache-Status: inner; hit\r\n(?:.*\r\n)*Cache-Status: troupe; hit/,
  );
  assert.equal(await ask('/fresh', { headers: 'Cache-Control: no-cache\r\n' }), 'troupe; fwd=request; stored');
  assert.equal(await ask('/fresh', { headers: 'Authorization: x\r\n' }), 'troupe; fwd=bypass');
  assert.equal(await ask('/fresh?x'), 'troupe; fwd=bypass');
  assert.equal(await ask('/fresh', { method: 'HEAD' }), 'troupe; fwd=method');
  assert.equal(await ask('/fresh', { method: 'POST', body: 'x' }), 'troupe; fwd=method');
  assert.equal(await ask('/plain'), 'troupe; fwd=miss; detail="it does not say how long it is fresh"');
  assert.equal(await ask('/plain'), 'troupe; fwd=miss');
});
