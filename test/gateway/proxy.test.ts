/** Requests through the proxy: what the origin sees, what the client gets, and what happens when either misbehaves. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import type { ProxyDecision, ProxyRequest } from '../../proto/gateway/traffic.ts';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { httpOrigin, openProxy, rawClient, rawOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { standsStill, turns, until } from '../support/until.ts';

failOnLeaks();

const GET = 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n';
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** An origin that answers each GET head with `answer`, and what it was sent. */
async function scripted(t: TestContext, answer: string | ((socket: Socket, count: number) => void)) {
  let count = 0;
  const seen: string[] = [];
  const port = await rawOrigin(t, (socket) => {
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        seen.push(text.slice(0, end + 4));
        text = text.slice(end + 4);
        if (typeof answer === 'string') socket.write(answer, 'latin1');
        else answer(socket, count++);
      }
    });
  });
  return { port, seen };
}

describe('a request', () => {
  test('reaches its origin with what is true about the client, and nothing of the hop', async (t) => {
    const { port, seen } = await scripted(t, OK);
    const proxy = await openProxy(t, ({ target }) => ({
      forward: { host: '127.0.0.1', port },
      target: `/base${target}`,
    }));
    const client = await rawClient(
      t,
      proxy.port,
      'GET /x?y=%20z HTTP/1.1\r\nHost: A.test:8000\r\nX-Keep: Me \r\nConnection: X-Drop, keep-alive\r\nX-Drop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n' +
        'X-Forwarded-For: 203.0.113.9\r\nx_forwarded_for: 203.0.113.9\r\nForwarded: for=x\r\nX-Real-IP: 1\r\nX-Forwarded-Proto: https\r\nProxy-Connection: x\r\nUpgrade: h2c\r\n\r\n',
    );
    await client.sees(/ok$/);
    assert.deepEqual(seen, [
      'GET /base/x?y=%20z HTTP/1.1\r\nHost: A.test:8000\r\nX-Keep: Me \r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test:8000\r\n\r\n',
    ]);
    assert.equal(client.text(), OK);
    const [entry] = proxy.log;
    assert.deepEqual(
      [entry?.method, entry?.host, entry?.target, entry?.status, entry?.bytes],
      ['GET', 'a.test', '/x?y=%20z', 200, 2],
    );
  });

  test('takes no token of the platform to a container, in a cookie or an upgrade', async (t) => {
    const { port, seen } = await scripted(t, OK);
    const proxy = await openProxy(t, ({ target }) => ({
      ...{ forward: { host: '127.0.0.1', port }, target },
      ...(target === '/own' ? {} : { tenantOf: ['cloud.test'] }),
    }));
    const cookiesAt = async (target: string, ...fields: string[]) => {
      const before = seen.length;
      const client = await rawClient(t, proxy.port, `GET ${target} HTTP/1.1\r\nHost: a.test\r\n${fields.join('')}\r\n`);
      await client.sees(/ok$/);
      return seen.slice(before).flatMap((head) => [...head.matchAll(/^cookie: ?(.*)\r$/gim)].map(([, text]) => text));
    };
    const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
    const cases: [string, string[]][] = [
      ['Cookie: token=secret\r\n', []],
      ['Cookie: a=1; token=secret; b="x=token=1"\r\n', ['a=1; b="x=token=1"']],
      ['COOKIE:\ttoken =secret;  __Host-token=secret;c=3\r\n', ['c=3']],
      ['Cookie: __Host-troupe=secret; d=4\r\n', ['d=4']],
      ['Cookie: token=secret\r\nCookie: mytoken=1; Token=2; token=secret\r\n', ['mytoken=1; Token=2']],
    ];
    for (const [fields, kept] of cases) {
      assert.deepEqual(await cookiesAt('/', fields), kept, fields);
      assert.deepEqual(await cookiesAt('/', fields, upgrade), kept, fields);
    }
    assert.deepEqual(await cookiesAt('/own', 'Cookie: token=mine; a=1\r\n'), ['token=mine; a=1']);
  });

  test('comes back from a container without cookies for names of the platform', async (t) => {
    const cookies = [
      'a=1; Path=/; Domain=cloud.test; Secure',
      'b="x; domain=cloud.test"; Max-Age=3',
      'c=1;DOMAIN = .Compute.Cloud.Test ;HttpOnly',
      'd=1; Domain=other.test',
      'e=1; Domain=notcloud.test; Path=/domain=cloud.test',
      'f=1; Domain=other.test; Domain=x.cloud.test',
      'g=1; Domain=test',
    ];
    const kept = [
      'a=1; Path=/; Secure',
      'b="x; domain=cloud.test"; Max-Age=3',
      'c=1;HttpOnly',
      'd=1; Domain=other.test',
      'e=1; Domain=notcloud.test; Path=/domain=cloud.test',
      'f=1; Domain=other.test',
      'g=1',
    ];
    const fields = cookies.map((cookie) => `Set-Cookie: ${cookie}\r\n`).join('');
    const early = `HTTP/1.1 103 Early Hints\r\n${fields}\r\n`;
    const { port } = await scripted(t, (socket, count) => {
      const head = count === 1 ? '101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x' : '200 OK';
      socket.write(`${count === 0 ? early : ''}HTTP/1.1 ${head}\r\n${fields}Content-Length: 2\r\n\r\nok`);
    });
    const proxy = await openProxy(t, ({ target }) => ({
      ...{ forward: { host: '127.0.0.1', port }, target },
      ...(target === '/own' ? {} : { tenantOf: ['cloud.test'] }),
    }));
    const cookiesOf = async (target: string, more = '') => {
      const client = await rawClient(t, proxy.port, `GET ${target} HTTP/1.1\r\nHost: a.test\r\n${more}\r\n`);
      await client.sees(/ok$/);
      return [...client.text().matchAll(/^set-cookie: ?(.*)\r$/gim)].map(([, text]) => text);
    };
    assert.deepEqual(await cookiesOf('/'), [...kept, ...kept]);
    assert.deepEqual(await cookiesOf('/', 'Connection: upgrade\r\nUpgrade: x\r\n'), kept);
    assert.deepEqual(await cookiesOf('/own'), cookies);
  });

  test('that is decided later, or answered by the gateway itself, leaves the connection open', async (t) => {
    const proxy = await openProxy(t, async ({ target }) => {
      await turns(1);
      return { reply: { status: 404, body: `no ${target}\n`, headers: [['X-A', 'b']] } };
    });
    const client = await rawClient(t, proxy.port, GET + GET.replace('/ ', '/two '));
    await client.sees(/no \/two\n$/);
    assert.match(
      client.text(),
      /^HTTP\/1.1 404 Not Found\r\nX-A: b\r\nContent-Type: text\/plain; charset=utf-8\r\nContent-Length: 5\r\n/,
    );
    client.send(GET.replace('GET', 'HEAD'));
    await client.sees(/Content-Length: 5\r\n[^\n]*\r\n\r\n$/);
  });

  test('pipelined with hundreds of others is answered in order', async (t) => {
    const port = await httpOrigin(t, (incoming, response) => {
      setTimeout(() => response.end(`<${incoming.url}>`), Number(incoming.url?.slice(1)) % 3);
    });
    const proxy = await openProxy(t, port);
    const count = 300;
    const client = await rawClient(
      t,
      proxy.port,
      Array.from({ length: count }, (_, i) => GET.replace('/ ', `/${i} `)).join(''),
    );
    await client.sees(new RegExp(`<\\/${count - 1}>`));
    const order = [...client.text().matchAll(/<\/(\d+)>/g)].map(([, n]) => Number(n));
    assert.deepEqual(
      order,
      Array.from({ length: count }, (_, i) => i),
    );
    assert.equal(proxy.upstreams.counts()[0]?.connections, 1);
  });

  test('that is no HTTP is refused in words, and the connection ends; a good one before it is answered', async (t) => {
    const { port, seen } = await scripted(t, OK);
    const proxy = await openProxy(t, port);
    const cases: [string, number][] = [
      ['GET / HTTP/1.1\nHost: a\n\n', 400],
      ['GET / HTTP/1.1\r\n\r\n', 400],
      ['GET / HTTP/3.0\r\nHost: a\r\n\r\n', 505],
      ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 501],
      ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
      ['POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n', 417],
      [`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(17_000)}`, 431],
      [`GET /${'x'.repeat(9000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 414],
      ['\0\0\0\n', 400],
    ];
    for (const [text, status] of cases) {
      const client = await rawClient(t, proxy.port, text);
      assert.match(
        await client.ended(),
        new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*\\r\\nConnection: close\\r\\n\\r\\nThe `),
        text.slice(0, 60),
      );
    }
    assert.deepEqual(seen, []);
    const client = await rawClient(t, proxy.port, `${GET}garbage\r\n\r\n`);
    assert.match(await client.ended(), /^HTTP\/1.1 200 OK[\s\S]*okHTTP\/1.1 400 /);
    assert.equal(seen.length, 1);
  });

  test('of an old client gets an answer it understands', async (t) => {
    const port = await httpOrigin(t, (_incoming, response) => {
      response.write('a');
      response.end('b');
    });
    const proxy = await openProxy(t, port);
    const old = await rawClient(t, proxy.port, 'GET / HTTP/1.0\r\n\r\n');
    assert.match(
      await old.ended(),
      /^HTTP\/1.1 200 OK\r\n(?![\s\S]*Transfer-Encoding)[\s\S]*Connection: close\r\n\r\nab$/,
    );
    const keeps = await scripted(t, OK);
    const second = await openProxy(t, keeps.port);
    const kept = await rawClient(t, second.port, 'GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n');
    await kept.sees(/Connection: keep-alive\r\n\r\nok$/);
    kept.send('GET / HTTP/1.0\r\n\r\n');
    assert.match(await kept.ended(), /Connection: close\r\n\r\nok$/);
  });
});

describe('a body', () => {
  /** An origin that answers with the length and hash of what it got. */
  const hashing = (t: TestContext) =>
    httpOrigin(t, (incoming, response) => {
      const hash = createHash('sha256');
      let length = 0;
      incoming.on('data', (chunk: Buffer) => {
        hash.update(chunk);
        length += chunk.length;
      });
      incoming.on('end', () =>
        response.end(`${incoming.headers['transfer-encoding'] ?? 'length'} ${length} ${hash.digest('hex')}`),
      );
    });
  const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

  async function send(
    port: number,
    headers: Record<string, string | number>,
    pieces: readonly Buffer[],
  ): Promise<string> {
    const outgoing = request({
      port,
      host: '127.0.0.1',
      method: 'POST',
      headers: { host: 'a.test', ...headers },
      agent: false,
    });
    outgoing.on('error', () => {});
    for (const piece of pieces) if (!outgoing.write(piece)) await once(outgoing, 'drain');
    outgoing.end();
    const [response] = await once(outgoing, 'response');
    let text = '';
    for await (const chunk of response) text += chunk;
    return text;
  }

  test('with a length or in chunks arrives whole, in the same form', async (t) => {
    const proxy = await openProxy(t, await hashing(t));
    for (const size of [0, 1, 70_000, 5_000_000]) {
      const bytes = randomBytes(size);
      const pieces = [bytes.subarray(0, size / 3), bytes.subarray(size / 3)];
      assert.equal(await send(proxy.port, { 'content-length': size }, pieces), `length ${size} ${hashOf(bytes)}`);
      assert.equal(
        await send(proxy.port, { 'transfer-encoding': 'chunked' }, pieces),
        `chunked ${size} ${hashOf(bytes)}`,
      );
    }
  });

  test('comes back whole, however the origin frames it', async (t) => {
    const bytes = randomBytes(3_000_000);
    const port = await httpOrigin(t, (incoming, response) => {
      if (incoming.url === '/length') response.setHeader('content-length', bytes.length);
      if (incoming.url === '/close') response.setHeader('connection', 'close').removeHeader('transfer-encoding');
      if (incoming.url === '/close') response.useChunkedEncodingByDefault = false;
      for (let at = 0; at < bytes.length; at += 40_000) response.write(bytes.subarray(at, at + 40_000));
      response.end();
    });
    const proxy = await openProxy(t, port);
    for (const path of ['/length', '/chunked', '/close']) {
      const response = await fetch(`http://127.0.0.1:${proxy.port}${path}`);
      assert.equal(hashOf(Buffer.from(await response.arrayBuffer())), hashOf(bytes), path);
    }
  });

  test('stops the client when the origin does not read, and the origin when the client does not', async (t) => {
    let accepted: Socket | undefined;
    const port = await rawOrigin(t, (socket) => {
      accepted = socket.pause();
    });
    const proxy = await openProxy(t, port);
    const size = 64 * 1024 * 1024;
    const client = await rawClient(t, proxy.port, `POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${size}\r\n\r\n`);
    let written = 0;
    const chunk = Buffer.alloc(65_536);
    while (written < size && client.socket.write(chunk)) written += chunk.length;
    await until(() => accepted, { what: 'the origin is asked' });
    // Until nothing moves any more: far less than the whole is in flight.
    await standsStill(() => {
      while (written < size && client.socket.writableLength === 0) {
        written += chunk.length;
        client.socket.write(chunk);
      }
      return written - client.socket.writableLength;
    }, 50);
    assert.ok(written < size / 2, `${written} bytes were taken`);
    accepted?.destroy();
    await client.sees(/^HTTP\/1.1 502 /);
    client.socket.destroy();

    let sent = 0;
    let origin: Socket | undefined;
    const flood = await rawOrigin(t, (socket) => {
      origin = socket;
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
        const more = () => {
          while (sent < size) {
            sent += chunk.length;
            if (!socket.write(chunk)) return;
          }
        };
        socket.on('drain', more);
        more();
      });
    });
    const second = await openProxy(t, flood);
    const slow = await rawClient(t, second.port, GET);
    slow.socket.pause();
    await standsStill(() => sent, 100);
    assert.ok(sent < size / 2, `${sent} bytes were taken`);
    slow.socket.destroy();
    await until(() => origin?.destroyed, { what: 'the origin hears that nobody reads' });
    await until(() => second.log.length === 1, { what: 'the log' });
  });

  test('is asked for with 100 Continue once the origin is there', async (t) => {
    const proxy = await openProxy(t, await hashing(t));
    const client = await rawClient(
      t,
      proxy.port,
      'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n',
    );
    await client.sees(/^HTTP\/1.1 100 Continue\r\n\r\n$/);
    client.send('hello');
    await client.sees(new RegExp(`length 5 ${hashOf(Buffer.from('hello'))}$`));
    // A request that is refused is not asked for its body.
    const refusing = await openProxy(t, () => ({ reply: { status: 404 } }));
    const refused = await rawClient(
      t,
      refusing.port,
      'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n',
    );
    assert.match(await refused.ended(), /^HTTP\/1.1 404 [\s\S]*Connection: close/);
  });

  test('that is malformed or cut short is never whole for the origin', async (t) => {
    let bodies = 0;
    const port = await httpOrigin(t, (incoming, response) => {
      incoming
        .on('error', () => {})
        .on('end', () => {
          bodies++;
          response.end();
        });
      incoming.resume();
    });
    const proxy = await openProxy(t, port);
    const post = 'POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n';
    for (const body of ['5\r\nhelloX', '0x5\r\nhello\r\n0\r\n\r\n', '5\nhello\r\n0\r\n\r\n', '-1\r\n\r\n']) {
      const client = await rawClient(t, proxy.port, post + body);
      assert.match(await client.ended(), /^HTTP\/1.1 400 [\s\S]*The chunked body is malformed/, body);
    }
    for (const text of [`${post}5\r\nhel`, 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nhel']) {
      const client = await rawClient(t, proxy.port, text);
      client.socket.end();
      assert.equal(await client.ended(), '', text);
    }
    assert.equal(bodies, 0);
  });

  test('that is answered before its end closes the connection after the answer', async (t) => {
    const port = await rawOrigin(t, (socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig'));
    });
    const proxy = await openProxy(t, port);
    const client = await rawClient(
      t,
      proxy.port,
      'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\nhello',
    );
    assert.match(
      await client.ended(),
      /^HTTP\/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig$/,
    );
    assert.equal(proxy.upstreams.counts()[0]?.idle ?? 0, 0);
  });
});

describe('an origin', () => {
  test('that answers with no HTTP, or doubtful HTTP, is a bad gateway', async (t) => {
    for (const answer of [
      'nonsense\r\n\r\n',
      'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`,
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
      'HTTP/1.1 103 Early\r\n\r\n'.repeat(20),
    ]) {
      const { port } = await scripted(t, answer);
      const proxy = await openProxy(t, port);
      const client = await rawClient(t, proxy.port, GET);
      await client.sees(/HTTP\/1.1 502 Bad Gateway\r\n/);
      assert.equal(proxy.log[0]?.status, 502);
    }
  });

  test('that is not there is a bad gateway, and the client may go on', async (t) => {
    const { port, seen } = await scripted(t, OK);
    const proxy = await openProxy(t, ({ target }) => ({
      forward: { host: '127.0.0.1', port: target === '/' ? 1 : port },
      target,
    }));
    const client = await rawClient(t, proxy.port, GET + GET.replace('/ ', '/x '));
    await client.sees(/^HTTP\/1.1 502 [\s\S]*does not answer\.\nHTTP\/1.1 200 OK[\s\S]*ok$/);
    assert.equal(seen.length, 1);
  });

  test('that breaks off a response lets the client see it', async (t) => {
    for (const part of [
      'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nXX',
    ]) {
      const { port } = await scripted(t, (socket) => socket.end(part));
      const proxy = await openProxy(t, port);
      await assert.rejects(
        fetch(`http://127.0.0.1:${proxy.port}/`).then((response) => response.text()),
        part,
      );
    }
  });

  test('is used again while it is whole, and never after it said too much', async (t) => {
    const good = await scripted(t, OK);
    const proxy = await openProxy(t, good.port);
    const client = await rawClient(t, proxy.port);
    for (let i = 1; i <= 5; i++) {
      client.send(GET);
      await client.sees(new RegExp(`(ok[\\s\\S]*){${i}}$`));
    }
    assert.deepEqual(proxy.upstreams.counts(), [{ address: `127.0.0.1:${good.port}`, connections: 1, idle: 1 }]);
    // An answer with more behind it: the next client must not get that (response queue poisoning).
    const bad = await scripted(t, `${OK}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison`);
    const second = await openProxy(t, bad.port);
    const victim = await rawClient(t, second.port);
    for (let i = 1; i <= 3; i++) {
      victim.send(GET);
      await victim.sees(new RegExp(`(ok[\\s\\S]*){${i}}$`));
    }
    assert.ok(!victim.text().includes('poison'));
    // The same, a moment later, while the connection is idle.
    const late = await scripted(t, (socket) => {
      socket.write(OK);
      setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'), 20);
    });
    const third = await openProxy(t, late.port);
    const patient = await rawClient(t, third.port, GET);
    await patient.sees(/ok$/);
    await until(() => third.upstreams.counts().length === 0, { what: 'the connection is thrown away' });
    patient.send(GET);
    await patient.sees(/ok[\s\S]*ok$/);
    assert.ok(!patient.text().includes('poison'));
  });

  test('that is not there is forgotten', async (t) => {
    let port = 1;
    const proxy = await openProxy(t, ({ target }) => ({ forward: { host: '127.0.0.1', port }, target }));
    for (port of [1, 2, 3]) await (await rawClient(t, proxy.port, GET)).sees(/^HTTP\/1.1 502 /);
    await until(() => proxy.upstreams.counts().length === 0, { what: 'they are forgotten' });
  });

  test('that closed an idle connection just now is asked again, once, for what changes nothing', async (t) => {
    const { port, seen } = await scripted(t, (socket, count) => {
      // The second request on a connection finds it dying.
      if (count % 2 === 0) socket.write(OK);
      else socket.destroy();
    });
    const proxy = await openProxy(t, port);
    const client = await rawClient(t, proxy.port, GET);
    await client.sees(/ok$/);
    client.send(GET);
    await client.sees(/ok[\s\S]*ok$/);
    assert.equal(seen.length, 3);
    // A POST is not repeated: it may have had its effect.
    client.send('POST / HTTP/1.1\r\nHost: a.test\r\n\r\n');
    await client.sees(/502 Bad Gateway/);
    assert.equal(seen.length, 4);
  });

  test('gets a connection anew for a request when the one it has was idle for longer than it may be', async (t) => {
    let opened = 0;
    const port = await rawOrigin(t, (socket) => {
      opened += 1;
      socket
        .on('error', () => undefined)
        .on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'));
    });
    // The sweep comes each second: before it does, the age is looked at.
    const proxy = await openProxy(t, port, { limits: { idleMs: -1 } });
    const client = await rawClient(t, proxy.port);
    for (let count = 1; count <= 3; count++) {
      client.socket.write('POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx');
      await until(() => opened === count, { what: `connection ${count} was opened` });
      await client.sees(new RegExp(`^(?:HTTP/1.1 200 [^]*?\\r\\n\\r\\n){${count}}$`));
    }
  });

  test('with too many connections is busy', async (t) => {
    const port = await rawOrigin(t, () => {});
    const proxy = await openProxy(t, port, { limits: { maxPerOrigin: 1 } });
    const first = await rawClient(t, proxy.port, GET);
    await until(() => proxy.upstreams.counts()[0]?.connections === 1, { what: 'the first is there' });
    const second = await rawClient(t, proxy.port, GET);
    await second.sees(/^HTTP\/1.1 503 [\s\S]*Retry-After: 1\r\n/);
    assert.equal(first.text(), '');
  });

  test('is not taken up by one client: others get in', async (t) => {
    const port = await rawOrigin(t, () => {});
    const isTrusted = () => true;
    const proxy = await openProxy(t, port, { limits: { maxPerOrigin: 4, maxPerClient: 2 }, isTrusted });
    const from = (address: string) =>
      rawClient(t, proxy.port, `GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: ${address}\r\n\r\n`);
    const connections = () => proxy.upstreams.counts()[0]?.connections;
    const [one, two] = [await from('192.0.2.1'), await from('192.0.2.1')];
    await until(() => connections() === 2, { what: 'the first client has its share' });
    await (await from('192.0.2.1')).sees(/^HTTP\/1.1 503 /);
    await from('192.0.2.2');
    await until(() => connections() === 3, { what: 'another client gets in' });
    // What ends is given back.
    one.socket.resetAndDestroy();
    two.socket.resetAndDestroy();
    await until(() => connections() === 1, { what: 'its connections are gone' });
    await from('192.0.2.1');
    await until(() => connections() === 2, { what: 'the first client gets in again' });
  });

  test('may answer HEAD, 204 and 304 without a body, and tell of 103 before', async (t) => {
    const { port } = await scripted(
      t,
      'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\nX: y\r\n\r\n',
    );
    const proxy = await openProxy(t, port);
    const client = await rawClient(t, proxy.port, GET + GET);
    await client.sees(/(HTTP\/1.1 103 Early Hints\r\nLink: <\/x>\r\n\r\nHTTP\/1.1 204 No Content\r\nX: y\r\n\r\n){2}$/);
    const head = await scripted(t, 'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n');
    const second = await openProxy(t, head.port);
    const heads = await rawClient(t, second.port, GET.replace('GET', 'HEAD').repeat(2));
    await heads.sees(/(HTTP\/1.1 200 OK\r\nContent-Length: 999\r\n\r\n){2}$/);
  });
});

describe('a route that throws or rejects', () => {
  test('costs its own request a 500; the connection and the process go on', async (t) => {
    const route = ({ target }: ProxyRequest): ProxyDecision | Promise<ProxyDecision> => {
      if (target === '/throws') throw new Error('secret');
      if (target === '/rejects') return Promise.reject(new Error('secret'));
      return { reply: { status: 200, body: 'ok' } };
    };
    const proxy = await openProxy(t, route);
    const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a.test\r\n\r\n`;
    const client = await rawClient(t, proxy.port, ask('/throws') + ask('/rejects') + ask('/'));
    await client.sees(/^HTTP\/1.1 500 [\s\S]*HTTP\/1.1 500 [\s\S]*HTTP\/1.1 200 [\s\S]*ok$/);
    assert.doesNotMatch(client.text(), /secret/);
  });
});

describe('a protocol switch', () => {
  const ask = 'GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

  test('joins the two, with what was sent too early', async (t) => {
    const port = await rawOrigin(t, (socket) => {
      socket.once('data', (head: Buffer) => {
        assert.match(head.toString(), /\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n/);
        socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-A: b\r\n\r\nfrom origin ',
        );
        socket.on('data', (chunk: Buffer) => socket.write(`<${chunk}>`));
      });
    });
    const proxy = await openProxy(t, port);
    const client = await rawClient(t, proxy.port, `${ask}early`);
    await client.sees(/<early>$/);
    assert.match(
      client.text(),
      /^HTTP\/1.1 101 Switching Protocols\r\nX-A: b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfrom origin <early>$/,
    );
    client.send('later');
    await client.sees(/<later>$/);
    assert.deepEqual([proxy.log[0]?.status, proxy.proxy.size], [101, 0]);
  });

  test('that the origin refuses is an ordinary answer', async (t) => {
    const { port } = await scripted(t, OK);
    const proxy = await openProxy(t, port);
    const client = await rawClient(t, proxy.port, ask + GET);
    await client.sees(/^HTTP\/1.1 200 OK[\s\S]*okHTTP\/1.1 200 OK[\s\S]*ok$/);
  });

  test('to another protocol than was asked for is a bad gateway', async (t) => {
    const { port } = await scripted(
      t,
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
    );
    const proxy = await openProxy(t, port);
    const client = await rawClient(t, proxy.port, ask);
    await client.sees(/^HTTP\/1.1 502 /);
  });
});

describe('time', () => {
  const quick = { headMs: 300, idleMs: 300, stallMs: 300 };

  test('is up for a head that drips, a body that stalls, and an idle connection', async (t) => {
    const port = await rawOrigin(t, () => {});
    const proxy = await openProxy(t, port, { timeouts: quick });
    const [drip, body, idle] = [
      await rawClient(t, proxy.port, 'GET / HTTP'),
      await rawClient(t, proxy.port, 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nhel'),
      await rawClient(t, proxy.port),
    ];
    const dripping = setInterval(() => drip.send('1'), 20);
    t.after(() => clearInterval(dripping));
    assert.match(await drip.ended(), /^HTTP\/1.1 408 /);
    assert.match(await body.ended(), /^HTTP\/1.1 408 /);
    assert.equal(await idle.ended(), '');
  });

  test('is up for an origin that does not answer, and for one that stops in its answer', async (t) => {
    const silent = await openProxy(t, await rawOrigin(t, () => {}), { timeouts: quick });
    const client = await rawClient(t, silent.port, GET);
    await client.sees(/^HTTP\/1.1 504 /);
    const { port } = await scripted(t, 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel');
    const stopping = await openProxy(t, port, { timeouts: quick });
    const half = await rawClient(t, stopping.port, GET);
    assert.match(await half.ended(), /hel$/);
  });

  test('does not matter to those who left: nothing stays', async (t) => {
    let origins = 0;
    const port = await rawOrigin(t, (socket) => {
      origins++;
      socket.on('end', () => origins--).resume();
    });
    const proxy = await openProxy(t, port);
    const clients = await Promise.all(Array.from({ length: 50 }, () => rawClient(t, proxy.port, GET)));
    await until(() => origins === 50, { what: 'all are at the origin' });
    for (const { socket } of clients) socket.resetAndDestroy();
    await until(() => origins === 0 && proxy.proxy.size === 0, { what: 'all are gone' });
    assert.deepEqual(new Set(proxy.log.map(({ status }) => status)), new Set([499]));
    assert.deepEqual(proxy.upstreams.counts(), []);
  });
});

describe('a client that has sent its last byte', () => {
  /** An origin that answers when told, and what it knows of its clients. */
  async function silent(t: TestContext) {
    const sockets: Socket[] = [];
    const state = { left: 0, asked: 0 };
    const port = await rawOrigin(t, (socket) => {
      sockets.push(socket);
      socket.on('data', () => state.asked++).on('end', () => state.left++);
    });
    return { port, state, answer: () => sockets.at(-1)?.write(OK) };
  }
  const POST = 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi';

  test('has left a service of the platform, which hears of it, before and after its answer began', async (t) => {
    const { port, state } = await silent(t);
    const proxy = await openProxy(t, ({ target }) => {
      return { forward: { host: '127.0.0.1', port }, target, isService: true };
    });
    for (const [at, request] of [GET, POST].entries()) {
      const client = await rawClient(t, proxy.port, request);
      await until(() => state.asked === at + 1, { what: 'the service is asked' });
      client.socket.end();
      await until(() => state.left === at + 1, { what: 'the service hears of it' });
      assert.equal(await client.ended(), '');
    }
    // At once, with the request itself.
    const client = await rawClient(t, proxy.port);
    client.socket.end(POST);
    await client.ended();
    await until(() => proxy.proxy.size === 0, { what: 'nothing stays' });
    assert.deepEqual(new Set(proxy.log.map(({ status }) => status)), new Set([499]));
  });

  test('gets the answer of any other origin', async (t) => {
    const { port, state, answer } = await silent(t);
    const proxy = await openProxy(t, port);
    for (const [at, request] of [GET, POST].entries()) {
      const client = await rawClient(t, proxy.port);
      client.socket.end(request);
      await until(() => state.asked > at, { what: 'the origin is asked' });
      await turns();
      assert.equal(state.left, 0);
      answer();
      assert.match(await client.ended(), /ok$/);
    }
  });
});

describe('the end', () => {
  test('lets an answer under way finish, and takes no other', async (t) => {
    let answer: (() => void) | undefined;
    const port = await httpOrigin(t, (_incoming, response) => {
      answer = () => response.end('done');
    });
    const proxy = await openProxy(t, port);
    const [busy, idle] = [await rawClient(t, proxy.port, GET), await rawClient(t, proxy.port)];
    await until(() => answer !== undefined, { what: 'the origin is asked' });
    const closed = proxy.proxy.close(5000);
    await idle.ended();
    answer?.();
    assert.match(await busy.ended(), /done/);
    await closed;
    assert.equal(proxy.proxy.size, 0);
  });

  test('a client over the limit of its address is turned away, others are not', async (t) => {
    const { port } = await scripted(t, OK);
    const proxy = await openProxy(t, port, { admission: new Admission({ perAddress: 2 }) });
    const [one, two] = [await rawClient(t, proxy.port, GET), await rawClient(t, proxy.port, GET)];
    await one.sees(/ok$/);
    await two.sees(/ok$/);
    // Reset, at once or after it was opened.
    // Reset, at once or after it was opened.
    const three = await rawClient(t, proxy.port, GET).catch(() => undefined);
    if (three !== undefined) assert.equal(await three.ended(), '');
    one.socket.destroy();
    const again = async () => {
      const client = await rawClient(t, proxy.port, GET).catch(() => undefined);
      await client?.answered();
      return client?.text().endsWith('ok');
    };
    await until(again, { what: 'there is room again' });
  });
});
