/** The response cache behind the running proxy: what is kept and for whom, and what must not be. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { MAX_BODY } from '../../transports/gateway/cache/rules.ts';
import { type CachedProxy, ok, openCached } from '../support/gateway/cache.ts';
import { rawClient } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** Each response says how many came before it. */
const counting = ({ count }: { count: number }) => ok('', `answer ${count}`);

/** Asks twice; whether the second came without the origin. */
async function isReused(proxy: CachedProxy, path: string, options?: Parameters<CachedProxy['ask']>[1]) {
  const first = await proxy.ask(path, options);
  const before = proxy.seen.length;
  const second = await proxy.ask(path, options);
  const isSame = proxy.seen.length === before;
  assert.equal(second.isCached, isSame, second.head);
  if (isSame) assert.equal(second.body, first.body);
  return isSame;
}

describe('a response', () => {
  test('is given again for 30 seconds, with its age and no-store', async (t) => {
    const proxy = await openCached(t, ({ count }) =>
      ok('Cache-Control: max-age=600\r\nETag: "x"\r\n', `answer ${count}`),
    );
    const first = await proxy.ask('/x');
    assert.match(first.head, /\r\nCache-Control: no-store(\r\n|$)/);
    assert.doesNotMatch(first.head, /max-age|Age:/);
    proxy.advance(20_000);
    const second = await proxy.ask('/x');
    assert.equal(second.body, 'answer 0');
    assert.match(second.head, /^HTTP\/1\.1 200 OK\r\n/);
    assert.match(second.head, /\r\nAge: 20\r\n/);
    assert.match(second.head, /\r\nETag: "x"\r\n/);
    assert.match(second.head, /\r\nDate: /);
    assert.match(second.head, /\r\nContent-Length: 8\r\n/);
    assert.equal(second.head.match(/cache-control/gi)?.length, 1);
    assert.match(second.head, /\r\nCache-Control: no-store\r\n/);
    proxy.advance(10_001);
    assert.equal((await proxy.ask('/x')).body, 'answer 1');
    assert.deepEqual(
      proxy.log.map(({ upstream, status, bytes }) => [upstream === 'cache', status, bytes]),
      [
        [false, 200, 8],
        [true, 200, 8],
        [false, 200, 8],
      ],
    );
    const { hits, misses, stored, entries, bytesSent } = proxy.cache.numbers();
    assert.deepEqual(
      { hits, misses, stored, entries, bytesSent },
      { hits: 1, misses: 2, stored: 2, entries: 1, bytesSent: 8 },
    );
  });

  test('is given again no longer than it says itself', async (t) => {
    const proxy = await openCached(t, ({ count }) => ok('Cache-Control: max-age=5\r\n', `answer ${count}`));
    await proxy.ask('/x');
    proxy.advance(4000);
    assert.equal((await proxy.ask('/x')).body, 'answer 0');
    proxy.advance(1001);
    assert.equal((await proxy.ask('/x')).body, 'answer 1');
  });

  test('goes to several clients on connections that go on, and to HTTP/1.0', async (t) => {
    const proxy = await openCached(t, counting);
    await proxy.ask('/x');
    const client = await rawClient(t, proxy.port, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n'.repeat(100));
    await until(() => client.text().split('answer 0').length === 101, { what: 'a hundred answers' });
    assert.doesNotMatch(client.text(), /Connection:/);
    client.send('GET /x HTTP/1.0\r\nHost: a.test\r\n\r\n');
    assert.match(await client.ended(), /Connection: close\r\n\r\nanswer 0$/);
    const old = await rawClient(t, proxy.port, 'GET /x HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n');
    await old.sees(/Connection: keep-alive\r\n\r\nanswer 0$/);
    assert.equal(proxy.seen.length, 1);
  });

  test('that came in chunks is given again with its length', async (t) => {
    const proxy = await openCached(
      t,
      () => 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x\r\ndefg\r\n0\r\nTrailer: x\r\n\r\n',
    );
    assert.match((await proxy.ask('/x')).body, /abc/);
    const { head, body } = await proxy.ask('/x');
    assert.equal(body, 'abcdefg');
    assert.match(head, /Content-Length: 7/);
    assert.doesNotMatch(head, /Transfer-Encoding/);
  });

  test('of 1 MB is kept, of a byte more not, whether it says its length or not', async (t) => {
    const proxy = await openCached(t, ({ target }) => {
      const body = 'x'.repeat(MAX_BODY + (target.includes('more') ? 1 : 0));
      return target.includes('chunks')
        ? `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
        : ok('', body);
    });
    assert.equal(await isReused(proxy, '/most'), true);
    assert.equal(await isReused(proxy, '/more'), false);
    const parts = [await proxy.ask('/chunks'), await proxy.ask('/chunks')];
    assert.deepEqual(
      parts.map(({ isCached }) => isCached),
      [false, true],
    );
    assert.equal(parts[1]?.body.length, MAX_BODY);
    assert.equal(await isReused(proxy, '/more-chunks'), false);
  });

  test('that streams reaches its client at once', async (t) => {
    let origin: Socket | undefined;
    const proxy = await openCached(t, (_, socket) => {
      origin = socket;
      return 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n';
    });
    const client = await rawClient(t, proxy.port, 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n');
    await client.sees(/first\r\n$/);
    origin?.write('0\r\n\r\n');
    await client.sees(/0\r\n\r\n$/);
  });
});

describe('a mutating request', () => {
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'PURGE']) {
    test(`${method} evicts its path at once, whatever its query, and nothing else`, async (t) => {
      const proxy = await openCached(t, ({ count, method: asked }) =>
        asked === 'GET' ? ok('', `answer ${count}`) : undefined,
      );
      await proxy.ask('/x');
      await proxy.ask('/y');
      // The origin does not answer it: evicted is at once.
      const client = await rawClient(t, proxy.port, `${method} /x?now=1 HTTP/1.1\r\nHost: a.test\r\n\r\n`);
      await until(() => proxy.seen.length === 3, { what: 'the request at the origin' });
      assert.equal((await proxy.ask('/x')).isCached, false);
      assert.equal((await proxy.ask('/y')).isCached, true);
      client.socket.destroy();
    });
  }

  test('evicts what its answer names on the same host', async (t) => {
    const proxy = await openCached(t, ({ method, count }) =>
      ok(method === 'GET' ? '' : 'Location: /y\r\nContent-Location: http://a.test/z\r\n', `answer ${count}`),
    );
    for (const path of ['/y', '/z', '/w']) await proxy.ask(path);
    await proxy.ask('/x', { method: 'POST', body: '1' });
    const cached = [];
    for (const path of ['/y', '/z', '/w']) cached.push((await proxy.ask(path)).isCached);
    assert.deepEqual(cached, [false, false, true]);
  });

  test('evicts once more when it is answered, and what was asked before it is not kept after it', async (t) => {
    const waiting: (() => void)[] = [];
    const proxy = await openCached(t, ({ method, target, count }, socket) => {
      const reply = () => void socket.write(ok('', `answer ${count}`));
      if (method === 'POST' || target === '/slow') waiting.push(reply);
      else reply();
      return undefined;
    });
    const slow = proxy.ask('/slow');
    await until(() => waiting.length === 1, { what: 'the slow request' });
    const post = proxy.ask('/x', { method: 'POST', body: '1' });
    await until(() => waiting.length === 2, { what: 'the POST' });
    await proxy.ask('/x');
    const postSlow = proxy.ask('/slow', { method: 'POST', body: '1' });
    await until(() => waiting.length === 3, { what: 'the other POST' });
    for (const reply of waiting.splice(0)) reply();
    await Promise.all([slow, post, postSlow]);
    assert.equal((await proxy.ask('/x')).isCached, false);
    const again = proxy.ask('/slow');
    await until(() => waiting.length === 1, { what: 'the origin is asked again' });
    for (const reply of waiting.splice(0)) reply();
    assert.equal((await again).isCached, false);
  });
});

describe('what must not be kept or shared', () => {
  test('host, scheme, port, origin, path in all its letters: none is given the answer of another; a query never', async (t) => {
    const proxy = await openCached(t, counting, {
      route: (request, port) => ({
        forward: { host: request.field('host')?.endsWith(':8001') ? 'localhost' : '127.0.0.1', port },
        target: request.target,
      }),
    });
    const bodies = new Set<string>();
    const asks: [string, string][] = [
      ...['/x', '/x/', '/X', '/%78', '//x', '/x;a', '/./x', '/x%2f'].map((path): [string, string] => [path, 'a.test']),
      ...['b.test', 'a.test:80', 'a.test:8000', 'a.test:8001', '127.0.0.1'].map((host): [string, string] => [
        '/x',
        host,
      ]),
    ];
    for (const [path, host] of asks) bodies.add((await proxy.ask(path, { host })).body);
    assert.equal(bodies.size, asks.length);
    for (const [path, host] of asks) assert.equal((await proxy.ask(path, { host })).isCached, true, `${host}${path}`);
    for (const query of ['?', '?a', '?a&b', '?b&a']) assert.equal(await isReused(proxy, `/x${query}`), false, query);
    for (const method of ['HEAD', 'OPTIONS']) assert.equal((await proxy.ask('/x', { method })).isCached, false);
    assert.equal((await proxy.ask('/x')).isCached, true);
    // Not written as it is in the key: what an origin makes of it is not for others.
    for (const host of ['A.test', 'a.test.', 'a.test:080'])
      assert.equal(await isReused(proxy, '/x', { host }), false, host);
  });

  test('nothing that belongs to somebody is kept or given', async (t) => {
    const proxy = await openCached(t, ({ target, count }) =>
      ok(
        target.startsWith('/set') ? 'Set-Cookie: a=b\r\n' : target === '/public' ? 'Cache-Control: public\r\n' : '',
        `answer ${count}`,
      ),
    );
    for (const headers of [
      'Authorization: Bearer x\r\n',
      'X-Service-Key: x\r\n',
      'Cookie: token=x\r\n',
      'Cookie: a=b; token=x\r\n',
      'Cookie: a=b; __Host-troupe=x\r\n',
      'Cookie: a=b\r\nCookie: b;Token = x\r\n',
      'Cookie: a="x; token=1"\r\n',
      'Proxy-Authorization: x\r\n',
    ]) {
      assert.equal(await isReused(proxy, '/public', { headers }), false, headers);
      await proxy.ask('/public');
      assert.equal((await proxy.ask('/public')).isCached, true);
      assert.equal((await proxy.ask('/public', { headers })).isCached, false, headers);
    }
    assert.equal(await isReused(proxy, '/public?token=x'), false);
    assert.equal(await isReused(proxy, '/set'), false);
    // Another cookie: only what is said to be for everybody.
    const headers = 'Cookie: session=1; mytoken=2\r\n';
    assert.equal(await isReused(proxy, '/mine', { headers }), false);
    assert.equal(await isReused(proxy, '/mine'), true);
    assert.equal((await proxy.ask('/mine', { headers })).isCached, false);
    assert.equal((await proxy.ask('/public', { headers })).isCached, true);
  });

  test('Vary by what the key has is kept apart, by anything else not kept', async (t) => {
    const proxy = await openCached(t, ({ target, count }) =>
      ok(`Vary: ${decodeURIComponent(target.slice(1))}\r\n`, `answer ${count}`),
    );
    for (const vary of ['*', 'Cookie', 'Accept, *', Array.from({ length: 1000 }, (_, n) => `X${n}`).join()])
      assert.equal(await isReused(proxy, `/${encodeURIComponent(vary)}`), false, vary.slice(0, 30));
    for (const vary of ['accept-encoding, Origin, HX-Request', 'User-Agent', 'X-Forwarded-For, Referer'])
      assert.equal(await isReused(proxy, `/${encodeURIComponent(vary)}`), true, vary);
    // Fields that it could vary by are not in requests that take part.
    for (const headers of ['Origin: https://b.test\r\n', 'HX-Request: true\r\n'])
      assert.equal(
        (await proxy.ask(`/${encodeURIComponent('accept-encoding, Origin, HX-Request')}`, { headers })).isCached,
        false,
      );
    const bodies = new Set<string>();
    const variants = [
      '',
      'Accept-Encoding: gzip\r\n',
      'Accept-Encoding: gzip, br\r\n',
      'Accept-Language: de\r\n',
      'Accept: text/html\r\n',
    ];
    for (const headers of variants) bodies.add((await proxy.ask('/Accept', { headers })).body);
    assert.equal(bodies.size, variants.length);
    assert.equal((await proxy.ask('/Accept', { headers: 'Accept-Encoding: br,GZIP\r\n' })).isCached, true);
    assert.equal((await proxy.ask('/Accept', { headers: 'Accept-Encoding: gzip;q=0, *\r\n' })).isCached, false);
  });

  test('what an origin makes of a field that the key does not know reaches nobody else', async (t) => {
    const proxy = await openCached(t, ({ head }) => ok('', `page: ${head.replaceAll('\r\n', '|')}`));
    let n = 0;
    for (const headers of [
      'X-Forwarded-Host: evil.test\r\n',
      'X-Host: evil.test\r\n',
      'X-Original-URL: /evil\r\n',
      'X-Rewrite-URL: /evil\r\n',
      'X-HTTP-Method-Override: evil\r\n',
      'X-Forwarded-Scheme: evil\r\n',
      'X_Forwarded_Host: evil\r\n',
      'Accept: evil\r\n',
      'Accept-Language: evil\r\n',
      'Origin: https://evil.test\r\n',
      'User-Agent: <script>evil\r\n',
      'Referer: http://x/"evil\r\n',
      'Connection: close, accept\r\nAccept: evil\r\n',
      'Accept_Encoding: evil\r\n',
      'Content-Type: evil\r\n',
    ]) {
      const path = `/${n++}`;
      await proxy.ask(path, { headers });
      await proxy.ask(path, { headers, host: 'A.test:99' });
      const victim = await proxy.ask(path);
      assert.doesNotMatch(victim.body, /evil|:99|A\.test/, headers);
    }
  });

  test('a name that looks like a file changes nothing: what comes back decides', async (t) => {
    const proxy = await openCached(t, ({ count, head }) =>
      ok(/cookie/i.test(head) ? '' : 'Cache-Control: private\r\n', `account of ${head} ${count}`),
    );
    for (const path of ['/account/x.css', '/account;x.css', '/account%2fx.js', '/account/..%2fstatic/x.css']) {
      assert.equal(await isReused(proxy, path, { headers: 'Cookie: session=victim\r\n' }), false, path);
      assert.doesNotMatch((await proxy.ask(path)).body, /victim/);
      assert.equal(await isReused(proxy, path), false, path);
    }
  });

  test('a GET with a body, or an upgrade, takes no part', async (t) => {
    const proxy = await openCached(t, counting);
    await proxy.ask('/x');
    assert.equal((await proxy.ask('/x')).isCached, true);
    for (const options of [
      { body: 'evil' },
      { body: '' },
      { headers: 'Upgrade: websocket\r\n' },
      { headers: 'Expect: 100-continue\r\n' },
    ]) {
      assert.equal((await proxy.ask('/x', options)).isCached, false, JSON.stringify(options));
    }
    const chunked = await rawClient(
      t,
      proxy.port,
      'GET /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    );
    assert.doesNotMatch(await chunked.sees(/answer/), /Age:/);
    assert.equal((await proxy.ask('/x')).body, 'answer 0');
  });

  test('errors are not kept, whoever caused them', async (t) => {
    const statuses = [
      '201 Created',
      '204 No Content',
      '206 Partial Content',
      '301 Moved',
      '302 Found',
      '304 Not Modified',
      '400 Bad',
      '404 Not Found',
      '405 No',
      '410 Gone',
      '431 Large',
      '500 Error',
      '503 Busy',
    ];
    const proxy = await openCached(t, ({ target }) => {
      const status = statuses[Number(target.slice(1))] ?? '';
      return /^(204|304)/.test(status)
        ? `HTTP/1.1 ${status}\r\nCache-Control: max-age=60\r\n\r\n`
        : ok('Cache-Control: max-age=60\r\n', 'x', status);
    });
    for (const [n, status] of statuses.entries()) assert.equal(await isReused(proxy, `/${n}`), false, status);
    for (const headers of [
      `X-Large: ${'x'.repeat(17_000)}\r\n`,
      'X-Meta: \x07\r\n',
      `Accept: ${'x'.repeat(4000)}\r\n`,
    ]) {
      await proxy.ask('/99', { headers });
      assert.equal((await proxy.ask('/99')).isCached, false);
    }
    assert.equal(proxy.cache.numbers().entries, 0);
  });

  test('ranges and conditions go to the origin, and what comes back is not kept', async (t) => {
    const proxy = await openCached(t, ({ head, count }) =>
      /\r\nrange/i.test(head) && !/if-range: "old"/i.test(head)
        ? ok('Content-Range: bytes 0-0/8\r\nETag: "x"\r\n', 'a', '206 Partial Content')
        : /content-range-lie/i.test(head)
          ? ok('Content-Range: bytes 0-0/8\r\n', 'a')
          : ok('ETag: "x"\r\n', `answer ${count}`),
    );
    for (const headers of [
      'Range: bytes=0-0\r\n',
      'Range: bytes=0-0\r\nIf-Range: "x"\r\n',
      'Range: bytes=0-0\r\nIf-Range: "old"\r\n',
      'If-Range: "x"\r\n',
      'If-None-Match: "x"\r\n',
      'If-Modified-Since: Sat, 21 Nov 2026 10:00:00 GMT\r\n',
      'If-Match: "x"\r\n',
    ]) {
      assert.equal(await isReused(proxy, '/x', { headers }), false, headers);
      assert.equal(proxy.cache.numbers().entries, 0, headers);
    }
    assert.equal(await isReused(proxy, '/content-range-lie'), false);
    assert.equal((await proxy.ask('/x')).status, 200);
    assert.equal((await proxy.ask('/x', { headers: 'Range: bytes=0-0\r\n' })).status, 206);
  });

  test('a thousand simultaneous misses are one request to the origin', async (t) => {
    let reply = () => {};
    const proxy = await openCached(t, (_, socket) => {
      reply = () => void socket.write(ok('', 'for all'));
      return undefined;
    });
    const clients = await Promise.all(
      Array.from({ length: 1000 }, () => rawClient(t, proxy.port, 'GET /hot HTTP/1.1\r\nHost: a.test\r\n\r\n')),
    );
    await until(() => proxy.cache.numbers().waited === 999, { what: 'all wait' });
    reply();
    for (const client of clients) await client.sees(/for all$/);
    assert.equal(proxy.seen.length, 1);
    assert.equal(proxy.cache.numbers().hits, 999);
  });

  test('whoever waits gets nothing that is not for all, and asks for itself', async (t) => {
    const replies: (() => void)[] = [];
    const proxy = await openCached(t, ({ count }, socket) => {
      replies.push(() => void socket.write(ok(`Set-Cookie: id=${count}\r\n`, `only for ${count}`)));
      return undefined;
    });
    const asks = Array.from({ length: 20 }, () => proxy.ask('/mine'));
    await until(() => proxy.cache.numbers().waited === 19, { what: 'all wait' });
    assert.equal(replies.length, 1);
    replies.shift()?.();
    await until(() => replies.length === 19, { what: 'each asks' });
    // From now on nobody waits for this.
    const next = proxy.ask('/mine');
    await until(() => replies.length === 20, { what: 'the next asks at once' });
    for (const reply of replies.splice(0)) reply();
    const bodies = (await Promise.all([...asks, next])).map(({ body }) => body);
    assert.equal(new Set(bodies).size, 21);
  });

  test('the first one leaves: the next takes its place; it fails: all hear so', async (t) => {
    const replies: (() => void)[] = [];
    const proxy = await openCached(t, ({ target }, socket) => {
      replies.push(() => void socket.write(target === '/fail' ? 'no HTTP\r\n\r\n' : ok('', 'for all')));
      return undefined;
    });
    const first = await rawClient(t, proxy.port, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n');
    await until(() => replies.length === 1, { what: 'the first at the origin' });
    const others = [proxy.ask('/x'), proxy.ask('/x'), proxy.ask('/x')];
    await until(() => proxy.cache.numbers().waited === 3, { what: 'the others wait' });
    first.socket.resetAndDestroy();
    await until(() => replies.length === 2, { what: 'the second at the origin' });
    replies[1]?.();
    assert.deepEqual(
      (await Promise.all(others)).map(({ body }) => body),
      ['for all', 'for all', 'for all'],
    );

    const failing = [proxy.ask('/fail'), proxy.ask('/fail'), proxy.ask('/fail')];
    await until(() => proxy.cache.numbers().waited === 5 && replies.length === 3, { what: 'they wait' });
    replies[2]?.();
    assert.deepEqual(
      (await Promise.all(failing)).map(({ status }) => status),
      [502, 502, 502],
    );
    assert.equal(proxy.seen.length, 3);
  });

  test('a first one that reads slowly holds nobody up', async (t) => {
    const body = 'x'.repeat(MAX_BODY);
    const proxy = await openCached(t, (_, socket) => {
      // More than sockets take on the way, so that a reader that stands still is felt here.
      socket.write(
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${(10 * MAX_BODY).toString(16)}\r\n${body.repeat(10)}\r\n0\r\n\r\n`,
      );
      return undefined;
    });
    const slow = await rawClient(t, proxy.port);
    slow.socket.pause();
    slow.send('GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n');
    await until(() => proxy.seen.length === 1, { what: 'the slow one at the origin' });
    const { status } = await proxy.ask('/x');
    assert.equal(status, 200);
  });

  test('what broke off is not kept', async (t) => {
    const proxy = await openCached(t, ({ target }, socket) => {
      if (target === '/length') socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf');
      else if (target === '/chunks') socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n');
      else if (target === '/broken')
        socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n');
      else socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf?');
      return undefined;
    });
    for (const path of ['/length', '/chunks', '/broken', '/close'])
      assert.equal(await isReused(proxy, path), false, path);
    const { entries, bytes } = proxy.cache.numbers();
    assert.deepEqual({ entries, bytes }, { entries: 0, bytes: 0 });
  });

  test('ages and dates that are none, or too old, are not fresh; nothing is fresh for longer than 30 seconds', async (t) => {
    const cases: [string, boolean][] = [
      ['Age: 5\r\nCache-Control: max-age=60', true],
      ['Age: -1\r\nCache-Control: max-age=60', true],
      ['Age: 60\r\nCache-Control: max-age=60', false],
      ['Age: 0\r\nAge: 7200\r\nCache-Control: max-age=60', true],
      ['Age: 7200, 0\r\nCache-Control: max-age=60', false],
      ['Age: 9223372036854775808\r\nCache-Control: max-age=60', false],
      ['Age: x', true],
      ['Cache-Control: max-age=-1', false],
      ['Cache-Control: max-age=1e3', false],
      ['Cache-Control: max-age=9223372036854775808', true],
      ['Cache-Control: max-age=60, max-age=0', false],
      ['Cache-Control: max-age=0\r\nCache-Control: s-maxage=60', true],
      ['Cache-Control: max-age=60, No-Store', false],
      ['Cache-Control: private="x", max-age=60', false],
      ['Cache-Control: no-cache="x"', false],
      ['Expires: 0', false],
      ['Expires: Thu, 01 Jan 1970 00:00:00 GMT', false],
      ['Expires: Fri, 01 Jan 2100 00:00:00 GMT', true],
      ['Expires: Fri, 01 Jan 2100 00:00:00 GMT\r\nExpires: 0', false],
      ['Date: Thu, 01 Jan 1970 00:00:00 GMT', false],
      ['Date: yesterday', true],
      ['Date: Fri, 01 Jan 2100 00:00:00 GMT\r\nExpires: Thu, 31 Dec 2099 00:00:00 GMT', false],
    ];
    const proxy = await openCached(t, ({ target }) => ok(`${cases[Number(target.slice(1))]?.[0]}\r\n`, 'x'));
    for (const [n, [lines, isFresh]] of cases.entries()) {
      assert.equal(await isReused(proxy, `/${n}`), isFresh, lines);
      proxy.advance(30_001);
      assert.equal((await proxy.ask(`/${n}`)).isCached, false, lines);
    }
  });

  test('any number of URLs takes no more memory than it may', async (t) => {
    const capacity = 200_000;
    const proxy = await openCached(t, () => ok('', 'x'.repeat(1000)), { capacity });
    const client = await rawClient(t, proxy.port);
    for (let n = 0; n < 500; n++) client.send(`GET /${n} HTTP/1.1\r\nHost: a.test\r\n\r\n`);
    await until(() => proxy.log.length === 500, { what: 'all answers' });
    const { bytes, evictions, stored } = proxy.cache.numbers();
    assert.ok(bytes <= capacity);
    assert.equal(stored, 500);
    assert.ok(evictions > 300);
    assert.equal((await proxy.ask('/499')).isCached, true);
  });

  test('a request to one host evicts nothing of another', async (t) => {
    const proxy = await openCached(t, ({ method, count }) =>
      ok(method === 'GET' ? '' : 'Location: http://b.test/x\r\nContent-Location: //b.test/x\r\n', `answer ${count}`),
    );
    await proxy.ask('/x', { host: 'b.test' });
    for (const path of ['/x', 'http://a.test/x', '//b.test/x', '/x?host=b.test'])
      await proxy.ask(path, {
        method: 'DELETE',
        headers: 'X-Forwarded-Host: b.test\r\nContent-Location: http://b.test/x\r\n',
      });
    assert.equal((await proxy.ask('http://b.test/x', { method: 'DELETE' })).status, 400);
    assert.equal((await proxy.ask('/x', { host: 'b.test' })).isCached, true);
  });
});

describe('an answer that hangs on who asks', () => {
  const from = (address: string, more = '') => `X-Forwarded-For: ${address}\r\n${more}`;
  const firefox = 'User-Agent: Firefox\r\n';

  test('is not given to another address, another program or another page, and is to the same', async (t) => {
    const proxy = await openCached(t, ({ head }) => {
      const seen = head.match(/^(?:x-forwarded-for|user-agent|referer): .*$/gim) ?? [];
      return ok('', seen.join());
    });
    const asks = [
      from('192.0.2.1'),
      from('192.0.2.2'),
      from('192.0.2.1', firefox),
      from('192.0.2.1', 'User-Agent: curl\r\n'),
      from('192.0.2.1', `${firefox}Referer: https://a.test/\r\n`),
    ];
    const bodies = new Set<string>();
    for (const headers of asks) bodies.add((await proxy.ask('/x', { headers })).body);
    assert.equal(bodies.size, asks.length);
    for (const headers of asks) {
      const again = await proxy.ask('/x', { headers });
      assert.deepEqual([again.isCached, bodies.has(again.body)], [true, true], headers);
    }
    // Of everybody, a mutation evicts it.
    await proxy.ask('/x', { method: 'DELETE', headers: from('192.0.2.9') });
    for (const headers of asks) assert.equal((await proxy.ask('/x', { headers })).isCached, false);
  });

  test('is given to all when its origin says that it may be, but for those by whose fields it varies', async (t) => {
    const proxy = await openCached(t, ({ target, count }) =>
      ok(`Cache-Control: max-age=20\r\n${target === '/vary' ? 'Vary: User-Agent\r\n' : ''}`, `answer ${count}`),
    );
    const first = await proxy.ask('/x', { headers: from('192.0.2.1', firefox) });
    const second = await proxy.ask('/x', { headers: from('192.0.2.2') });
    assert.deepEqual([second.isCached, second.body], [true, first.body]);
    await proxy.ask('/vary', { headers: from('192.0.2.1', firefox) });
    assert.equal((await proxy.ask('/vary', { headers: from('192.0.2.1') })).isCached, false);
    assert.equal((await proxy.ask('/vary', { headers: from('192.0.2.1', firefox) })).isCached, true);
  });

  test('is given to all where the operator says that the origin answers all alike', async (t) => {
    const proxy = await openCached(t, counting, { sharedOrigins: 'all' });
    const { body } = await proxy.ask('/x', { headers: from('192.0.2.1') });
    const other = await proxy.ask('/x', { headers: from('192.0.2.2', firefox) });
    assert.deepEqual([other.isCached, other.body], [true, body]);
  });

  test('is waited for by those alone who may have it', async (t) => {
    const held: { respond: () => void }[] = [];
    const proxy = await openCached(t, ({ count }, socket) => {
      held.push({ respond: () => void socket.write(ok('', `answer ${count}`)) });
      return undefined;
    });
    const first = proxy.ask('/x', { headers: from('192.0.2.1') });
    await until(() => held.length === 1, { what: 'the first is asked for' });
    const [same, other] = ['192.0.2.1', '192.0.2.2'].map((address) => proxy.ask('/x', { headers: from(address) }));
    await until(() => proxy.cache.numbers().waited === 2, { what: 'two wait' });
    held[0]?.respond();
    await until(() => held.length === 2, { what: 'the other asks for itself' });
    held[1]?.respond();
    assert.deepEqual(
      [(await first).body, (await same)?.body, (await other)?.body],
      ['answer 0', 'answer 0', 'answer 1'],
    );
  });
});

test('If-None-Match is answered from memory: 304 to whoever has it, the whole to others', async (t) => {
  const proxy = await openCached(t, ({ count }) =>
    ok('ETag: W/"v1"\r\nCache-Control: max-age=20\r\nX-More: y\r\nVary: Accept\r\n', `answer ${count}`),
  );
  const condition = (tags: string) => proxy.ask('/x', { headers: `If-None-Match: ${tags}\r\n` });
  // While nothing is kept it is the origin's, and what that says is not kept.
  assert.equal((await condition('"v1"')).isCached, false);
  assert.equal((await proxy.ask('/x')).isCached, false);
  proxy.advance(3000);
  for (const tags of ['"v1"', 'W/"v0", W/"v1"', '*']) {
    const answer = await condition(tags);
    assert.deepEqual([answer.status, answer.isCached, answer.body], [304, true, ''], tags);
    assert.match(answer.head, /\r\nETag: W\/"v1"\r\n/);
    assert.match(answer.head, /\r\nVary: Accept\r\n/);
    assert.match(answer.head, /\r\nCache-Control: no-store\r\n/);
    assert.match(answer.head, /\r\nAge: [34]\r\n/);
    assert.doesNotMatch(answer.head, /Content-Length|X-More/i);
  }
  const other = await condition('"v2"');
  assert.deepEqual([other.status, other.isCached, other.body], [200, true, 'answer 1']);
  const dated = await proxy.ask('/x', {
    headers: 'If-None-Match: "v1"\r\nIf-Modified-Since: Sat, 21 Nov 2026 10:00:00 GMT\r\n',
  });
  assert.deepEqual([dated.status, dated.isCached], [304, true]);
  // Connections go on behind it.
  const client = await rawClient(t, proxy.port);
  for (const tag of ['"v1"', '"v2"']) client.send(`GET /x HTTP/1.1\r\nHost: a.test\r\nIf-None-Match: ${tag}\r\n\r\n`);
  await client.sees(/^HTTP\/1.1 304 [\s\S]*HTTP\/1.1 200 OK[\s\S]*answer 1$/);
});

test('a client that does not read its answers is given no more than a few', async (t: TestContext) => {
  const proxy = await openCached(t, () => ok('', 'x'.repeat(500_000)));
  await proxy.ask('/x');
  const client = await rawClient(t, proxy.port);
  client.socket.pause();
  const many = 400;
  client.send('GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n'.repeat(many));
  await until(() => proxy.cache.numbers().hits > 0, { what: 'the first hit' });
  let last = -1;
  await until(
    () => {
      const { hits } = proxy.cache.numbers();
      const stands = hits === last;
      last = hits;
      return stands;
    },
    { what: 'no more hits', everyMs: 100 },
  );
  assert.ok(last < many / 4, `${last} hits`);
  client.socket.resume();
  await until(() => proxy.cache.numbers().hits === many, { what: 'all hits once it reads' });
});

describe('an origin that is forgotten, as another program answers there', () => {
  test('is asked again for all of its hosts and paths', async (t) => {
    const proxy = await openCached(t, counting);
    for (const host of ['a.test', 'b.test']) assert.equal(await isReused(proxy, '/x', { host }), true);
    proxy.cache.forget('192.0.2.1');
    assert.equal((await proxy.ask('/x')).isCached, true);
    proxy.cache.forget('127.0.0.1');
    for (const host of ['a.test', 'b.test']) assert.equal((await proxy.ask('/x', { host })).isCached, false);
    // What it answers from then on is kept.
    assert.equal((await proxy.ask('/x')).isCached, true);
  });

  test('has no answer kept that was under way', async (t) => {
    const sockets: Socket[] = [];
    const proxy = await openCached(t, (request, socket) => {
      if (request.count > 0) return counting(request);
      sockets.push(socket);
      return undefined;
    });
    const first = proxy.ask('/x');
    await until(() => sockets.length === 1);
    proxy.cache.forget('127.0.0.1');
    sockets[0]?.write(ok('', 'the former program'));
    assert.equal((await first).body, 'the former program');
    assert.equal((await proxy.ask('/x')).body, 'answer 1');
  });
});
