/** Clients and origins that leave, stall, flood or say more than they should. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { openProxy, rawClient, rawOrigin } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { recorder } from '../support/gateway/recording-origin.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const GET = 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n';
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** An origin that plays `answer` for every head it gets, and then `after` for the next ones on the same connection. */
async function origin(t: TestContext, answer: string | ((socket: Socket) => void)) {
  let connections = 0;
  const port = await rawOrigin(t, (socket) => {
    connections++;
    socket.on('end', () => socket.end());
    socket.on('data', (chunk: Buffer) => {
      if (!chunk.toString('latin1').includes('\r\n\r\n')) return;
      if (typeof answer === 'string') socket.write(answer, 'latin1');
      else answer(socket);
    });
  });
  return { port, connections: () => connections };
}

describe('a client', () => {
  test('that pipelines ten thousand requests gets ten thousand answers in order, over one connection to the origin', async (t) => {
    const behind = await recorder(t);
    const proxy = await openProxy(t, behind.port);
    const count = 10_000;
    const text = await exchange(
      proxy.port,
      Array.from({ length: count }, (_, i) => `GET /${i} HTTP/1.1\r\nHost: a.test\r\n\r\n`).join(''),
    );
    const order = [...text.matchAll(/\[GET \/(\d+) 0\]/g)].map(([, n]) => Number(n));
    assert.equal(order.length, count);
    assert.ok(order.every((n, i) => n === i));
    assert.ok((proxy.upstreams.counts()[0]?.connections ?? 0) <= 1);
  });

  test('that sends garbage behind a request gets its answer first, then 400', async (t) => {
    const behind = await recorder(t);
    const proxy = await openProxy(t, behind.port);
    const text = await exchange(proxy.port, `${GET}\x00\x01garbage\n\n`);
    assert.match(text, /^HTTP\/1\.1 200 OK[\s\S]*\[GET \/ 0\]HTTP\/1\.1 400 Bad Request/);
    assert.deepEqual(behind.seen, [['GET', '/', 0]]);
  });

  test('that drips its head, its body, or does not read, holds up nobody else', async (t) => {
    const behind = await recorder(t);
    const proxy = await openProxy(t, behind.port, { timeouts: { headMs: 400, stallMs: 400 } });
    const slow = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        rawClient(
          t,
          proxy.port,
          i % 2 === 0 ? 'GET / HTT' : 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nx',
        ),
      ),
    );
    for (let i = 0; i < 20; i++) assert.match(await exchange(proxy.port, GET), /\[GET \/ 0\]$/);
    for (const client of slow) assert.match(await client.ended(), /^HTTP\/1\.1 408 Request Timeout/);
    await until(() => proxy.proxy.size === 0, { what: 'nothing is left of them' });
  });

  test('of an idle horde costs nobody anything but its connections', async (t) => {
    const behind = await recorder(t);
    const proxy = await openProxy(t, behind.port, { timeouts: { headMs: 300, idleMs: 300 } });
    const horde = await Promise.all(Array.from({ length: 300 }, () => rawClient(t, proxy.port)));
    assert.match(await exchange(proxy.port, GET), /\[GET \/ 0\]$/);
    for (const client of horde) assert.equal(await client.ended(), '');
  });
});

describe('a client', () => {
  test('that says no more after its request still gets the answer', async (t) => {
    const { port } = await origin(t, (socket) => setTimeout(() => socket.write(OK), 30));
    const proxy = await openProxy(t, port);
    assert.match(await exchange(proxy.port, GET), /ok$/);
  });

  test('that resets in the middle of its body takes the connection to the origin with it', async (t) => {
    const behind = await recorder(t);
    const proxy = await openProxy(t, behind.port);
    const client = await rawClient(t, proxy.port, 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nhel');
    await until(() => proxy.upstreams.counts()[0]?.connections === 1, { what: 'the origin is asked' });
    client.socket.resetAndDestroy();
    await until(() => proxy.upstreams.counts().length === 0, { what: 'the connection is gone' });
    assert.deepEqual([behind.seen, proxy.log.map(({ status }) => status)], [[], [499]]);
  });
});

describe('an origin', () => {
  const CASES: [what: string, answer: string | ((socket: Socket) => void), client: RegExp][] = [
    [
      'that resets before it answers',
      (socket) => socket.resetAndDestroy(),
      /^HTTP\/1\.1 502 [\s\S]*broke off before it answered\.\n$/,
    ],
    ['that leaves before it answers', (socket) => socket.destroy(), /^HTTP\/1\.1 502 /],
    [
      'that resets in its answer',
      (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel', () => socket.resetAndDestroy()),
      /^(HTTP\/1\.1 200 OK[\s\S]*hel|HTTP\/1\.1 502 [\s\S]*)$/,
    ],
    [
      'that ends with its length unmet',
      (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel'),
      /\r\n\r\nhel$/,
    ],
    [
      'that floods with interim answers',
      'HTTP/1.1 102 Processing\r\n\r\n'.repeat(10_000),
      /HTTP\/1\.1 502 Bad Gateway[\s\S]*does not come to an answer\.\n$/,
    ],
    [
      'that never ends its interim answers',
      (socket) => {
        const timer = setInterval(() => socket.write('HTTP/1.1 100 Continue\r\n\r\n'), 1);
        socket.on('close', () => clearInterval(timer));
      },
      /^HTTP\/1\.1 502 /,
    ],
    [
      'that switches protocols unasked',
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
      /^HTTP\/1\.1 502 [\s\S]*nobody asked for\.\n$/,
    ],
    [
      'that answers with two status lines',
      'HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
      /^HTTP\/1\.1 502 /,
    ],
    [
      'that says length and coding',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      /^HTTP\/1\.1 502 /,
    ],
    [
      'that says two lengths',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok',
      /^HTTP\/1\.1 502 /,
    ],
    ['with a head of ten megabytes', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(10_485_760)}\r\n\r\n`, /^HTTP\/1\.1 502 /],
    ['with ten thousand fields', `HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(10_000)}\r\n`, /^HTTP\/1\.1 502 /],
    ['that is no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n\r\n', /^HTTP\/1\.1 502 [\s\S]*answered with no HTTP/],
    ['that answers in HTTP/0.9', '<html>hello</html>\r\n\r\n', /^HTTP\/1\.1 502 /],
    ['that folds its lines', 'HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok', /^HTTP\/1\.1 502 /],
    ['that writes a bare LF', 'HTTP/1.1 200 OK\r\nX: a\nY: b\r\nContent-Length: 2\r\n\r\nok', /^HTTP\/1\.1 502 /],
  ];
  for (const [what, answer, seen] of CASES) {
    test(`${what} harms this one request`, async (t) => {
      const bad = await origin(t, answer);
      const good = await recorder(t);
      const proxy = await openProxy(t, ({ target }) => ({
        forward: { host: '127.0.0.1', port: target === '/' ? bad.port : good.port },
        target,
      }));
      const client = await rawClient(t, proxy.port, GET);
      await client.sees(seen);
      // The next request, of another client, is answered; nothing of the bad connection is kept.
      assert.match(await exchange(proxy.port, GET.replace('/ ', '/good ')), /\[GET \/good 0\]$/);
      await until(
        () =>
          proxy.upstreams
            .counts()
            .every(({ address, connections }) => !address.endsWith(`:${bad.port}`) || connections === 0),
        {
          what: 'the bad connection is gone',
        },
      );
    });
  }

  const EXTRA = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison';
  for (const [what, method, answer] of [
    ['a body behind 204', 'GET', `HTTP/1.1 204 No Content\r\n\r\n${EXTRA}`],
    ['a body behind 304', 'GET', `HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello`],
    ['a body to HEAD', 'HEAD', `HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello`],
    ['a second answer', 'GET', OK + EXTRA],
    ['more than its length', 'GET', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokpoison'],
    [
      'more after its last chunk',
      'GET',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${EXTRA}`,
    ],
  ] as const) {
    test(`that says ${what} is not asked on that connection again, and nobody gets it`, async (t) => {
      const bad = await origin(t, answer);
      const proxy = await openProxy(t, bad.port);
      const client = await rawClient(t, proxy.port);
      for (let i = 1; i <= 3; i++) {
        client.send(GET.replace('GET', method));
        await client.sees(
          new RegExp(
            `^(HTTP/1\\.1 [23]0\\d [^\\n]*\\n(?:[^\\n]+\\n)*\\r\\n(?:ok|2\\r\\nok\\r\\n0\\r\\n\\r\\n)?){${i}}$`,
          ),
        );
      }
      assert.ok(!client.text().includes('poison') && !client.text().includes('hello'), client.text());
      assert.equal(bad.connections(), 3);
    });
  }

  for (const [what, method, announced] of [
    ['a length to HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n'],
    ['chunks to HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ['a length with 204', 'GET', 'HTTP/1.1 204 No Content\r\nContent-Length: 57\r\n\r\n'],
  ] as const) {
    test(`that announces ${what}, and sends the body later, is not asked on that connection again`, async (t) => {
      // The body comes behind the next request, or when the connection ends: as late as can be.
      const bad = await rawOrigin(t, (socket) => {
        let isFirst = true;
        socket.on('data', () => {
          socket.write(isFirst ? announced : EXTRA);
          isFirst = false;
        });
        socket.on('end', () => socket.end());
      });
      const proxy = await openProxy(t, bad);
      const client = await rawClient(t, proxy.port);
      for (let i = 1; i <= 3; i++) {
        client.send(GET.replace('GET', method));
        await client.sees(new RegExp(`^(HTTP/1\\.1 20\\d [^\\n]*\\n(?:[^\\n]+\\n)*\\r\\n){${i}}$`));
      }
      assert.ok(!client.text().includes('poison'), client.text());
    });
  }

  test('that answers before the request has come whole ends that connection with its answer', async (t) => {
    const { port, connections } = await origin(t, OK);
    const proxy = await openProxy(t, port);
    const client = await rawClient(t, proxy.port, 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 99\r\n\r\nhello');
    assert.match(await client.ended(), /Connection: close\r\n\r\nok$/);
    assert.match(await exchange(proxy.port, GET), /ok$/);
    assert.equal(connections(), 2);
  });
});
