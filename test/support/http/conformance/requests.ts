import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { HttpReply, HttpRequest } from '../../../../proto/ports/http.ts';
import { until } from '../../until.ts';
import { type Adapter, head, serve, url, wire } from '../client.ts';

const seen = (r: HttpRequest): HttpReply => ({
  status: 200,
  headers: [['content-type', 'application/json']],
  body: JSON.stringify({
    method: r.method,
    path: r.path,
    query: r.query,
    address: r.remoteAddress,
    agent: r.header('user-agent'),
    forwarded: r.header('x-forwarded-for'),
    cookie: r.header('cookie'),
    absent: r.header('absent') === undefined,
    empty: r.header('x-empty'),
  }),
});

const REQUEST = head(
  'GET /a%20b/%C3%A9?q=1&r=%20 HTTP/1.1',
  'Host: x',
  'User-Agent: Test',
  'X-Forwarded-For: 1.1.1.1',
  'x-forwarded-for: 2.2.2.2',
  'Cookie: a=1',
  'cookie: b=2',
  'X-Empty:',
);

/** What a handler sees of a request, and what refuses to become one. */
export function requests(adapter: Adapter): void {
  const handlers = {
    'at once': (r: HttpRequest) => seen(r),
    'after awaiting': async (r: HttpRequest) => {
      await turn();
      return seen(r);
    },
  };
  it('answers all of many requests at once, also to a client that reads late', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: () => ({ status: 200, headers: [], body: 'x'.repeat(2000) }),
    });
    const client = await wire(t, server);
    client.socket.pause();
    const count = 10_000;
    client.send(head('GET /some/path HTTP/1.1', 'Host: x').repeat(count));
    // Its answers fill what the kernel holds, in the middle of a head or not.
    await until(() => client.socket.writableLength === 0 || client.socket.writableNeedDrain);
    client.socket.resume();
    const each = () => client.text.indexOf('HTTP/1.1', 1);
    // uWebSockets.js ends a connection on which more requests arrive while answers wait: so does a bare server on it.
    const isCut = () => adapter === 'uws' && client.socket.closed;
    const isWhole = () => each() > 0 && client.text.length >= count * each();
    await until(() => isWhole() || isCut(), { what: 'all answers' });
    if (isWhole()) assert.equal(client.text.match(/HTTP\/1\.1 200 /g)?.length, count);
    assert.equal(client.text.match(/HTTP\/1\.1 [^2]/), null);
  });

  for (const [when, onRequest] of Object.entries(handlers)) {
    it(`hands over the request line, headers and address, read ${when}`, async (t) => {
      const server = await serve(t, adapter, { onRequest });
      const client = (await wire(t, server)).send(REQUEST);
      const text = await client.sees(/\}$/);
      assert.deepEqual(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))), {
        method: 'GET',
        path: '/a%20b/%C3%A9',
        query: 'q=1&r=%20',
        address: '127.0.0.1',
        agent: 'Test',
        forwarded: '1.1.1.1, 2.2.2.2',
        cookie: 'a=1; b=2',
        absent: true,
        empty: '',
      });
    });
  }

  it('shows the address of an IPv4 client as IPv4 on a dual-stack socket, also for other methods', async (t) => {
    const server = await serve(t, adapter, {
      host: '::',
      onRequest: (r) => ({ status: 200, headers: [], body: r.remoteAddress }),
    });
    assert.equal(await (await fetch(url(server))).text(), '127.0.0.1');
    const later = await serve(t, adapter, {
      host: '::',
      onRequest: async (r) => {
        await r.body(10);
        return { status: 200, headers: [], body: r.remoteAddress };
      },
    });
    assert.equal(await (await fetch(url(later), { method: 'POST', body: 'x' })).text(), '127.0.0.1');
    assert.equal(await (await fetch(`http://[::1]:${later.port}/`)).text(), '::1');
  });

  it('passes every usual method on in upper case', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: (r) => ({ status: 200, headers: [['x-method', r.method]], body: r.query }),
    });
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const response = await fetch(url(server), { method });
      assert.equal(response.headers.get('x-method'), method);
      assert.equal(await response.text(), '');
    }
  });

  it('answers requests that arrive together in order', async (t) => {
    const server = await serve(t, adapter, { onRequest: (r) => ({ status: 200, headers: [], body: r.path }) });
    const one = (path: string) => head(`GET ${path} HTTP/1.1`, 'Host: x');
    const text = await (await wire(t, server)).send(one('/first') + one('/second')).sees(/\/second$/);
    assert.ok(text.indexOf('/first') < text.indexOf('/second'));
  });

  const refused: Record<string, [request: string, status: RegExp]> = {
    'a method nobody knows': [head('FROB / HTTP/1.1', 'Host: x'), /^HTTP\/1\.1 501 /],
    'a method outside the set': [head('PROPFIND / HTTP/1.1', 'Host: x'), /^HTTP\/1\.1 501 /],
    'both content-length and transfer-encoding': [
      `${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      /^HTTP\/1\.1 400 /,
    ],
    'two lengths': [
      `${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 3', 'Content-Length: 5')}abcde`,
      /^HTTP\/1\.1 400 /,
    ],
    'two lengths on GET': [
      `${head('GET / HTTP/1.1', 'Host: x', 'Content-Length: 3', 'Content-Length: 5')}abcde`,
      /^HTTP\/1\.1 400 /,
    ],
    'a length that is no number': [head('POST / HTTP/1.1', 'Host: x', 'Content-Length: +3'), /^HTTP\/1\.1 400 /],
    'a coding other than chunked': [
      `${head('POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding: gzip, chunked')}0\r\n\r\n`,
      // RFC 9112, section 6.1: not understood, or refused.
      /^HTTP\/1\.1 (400|501) /,
    ],
    'a head over 16 KiB': [
      head('POST / HTTP/1.1', 'Host: x', `X-Long: ${'y'.repeat(17_000)}`, 'Content-Length: 0'),
      /^HTTP\/1\.1 431 /,
    ],
    'a bare line feed': ['GET / HTTP/1.1\nHost: x\n\n', /^HTTP\/1\.1 (400|505) /],
  };
  for (const [what, [request, status]] of Object.entries(refused)) {
    it(`refuses ${what} and closes the connection, without asking the handler`, async (t) => {
      let asked = 0;
      const server = await serve(t, adapter, {
        onRequest: () => {
          asked += 1;
          return { status: 200, headers: [] };
        },
      });
      const client = (await wire(t, server)).send(request);
      assert.match(await client.ends(), status);
      assert.equal(asked, 0);
    });
  }

  it('refuses a GET with a head over 16 KiB when its handler answers later', async (t) => {
    const server = await serve(t, adapter, { onRequest: async () => ({ status: 200, headers: [] }) });
    const request = head('GET / HTTP/1.1', 'Host: x', `X-Long: ${'y'.repeat(17_000)}`);
    assert.match(await (await wire(t, server)).send(request).ends(), /^HTTP\/1\.1 431 /);
  });

  it('refuses more than 100 header lines', async (t) => {
    const server = await serve(t, adapter, { onRequest: async () => ({ status: 200, headers: [] }) });
    const many = Array.from({ length: 120 }, (_, i) => `X-${i}: y`);
    const client = (await wire(t, server)).send(head('POST / HTTP/1.1', 'Host: x', ...many));
    // uWebSockets.js waits for an end that it does not see, until its timeout.
    const text = await client.ends(25_000);
    assert.doesNotMatch(text, /^HTTP\/1\.1 200 /);
  });

  it('takes a head of 12 KiB that arrives in pieces', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: async (r) => ({ status: 200, headers: [], body: String(r.header('x-long')?.length) }),
    });
    const client = await wire(t, server);
    client.socket.setNoDelay(true);
    client.send('GET / HTTP/1.1\r\nHost: x\r\nX-Long: ');
    for (let i = 0; i < 12; i++) {
      client.send('y'.repeat(1000));
      await turn();
    }
    assert.match(await client.send('\r\n\r\n').sees(/12000$/), /^HTTP\/1\.1 200 /);
  });

  it('gives a head that does not come ten seconds, drip or not', async (t) => {
    const server = await serve(t, adapter, {});
    const silent = (await wire(t, server)).send('GET / HTTP/1.1\r\nHost:');
    const dripping = (await wire(t, server)).send('GET / HTTP/1.1\r\n');
    const drip = setInterval(() => dripping.send('X-Drip: 1\r\n'), 500);
    t.after(() => clearInterval(drip));
    await Promise.all([silent.ends(25_000), dripping.ends(25_000)]);
  });
}
