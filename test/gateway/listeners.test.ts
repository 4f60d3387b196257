/** The listeners together: what is told by first bytes, by server names and hosts, and by proxies in front. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { createServer } from 'node:tls';
import { clientBehind, parseTrusted } from '../../transports/wire/peer-address.ts';
import { certificates, openListeners, says } from '../support/gateway/listeners.ts';
import { httpOrigin, rawClient, rawOrigin } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { recorder } from '../support/gateway/recording-origin.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const get = (host: string, path = '/') => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
/** An origin that answers with what it was told of the client. */
const telling = (t: Parameters<typeof httpOrigin>[0]) =>
  httpOrigin(t, ({ headers }, response) => {
    response.end(`<${headers['x-forwarded-for']} ${headers['x-forwarded-proto']} ${headers['x-forwarded-host']}>`);
  });

describe('a port of containers', () => {
  test('tells the protocol by the first bytes, one at a time, and then speaks it to the end', async (t) => {
    const behind = await recorder(t);
    const { ports } = await openListeners(t, behind.port);
    const client = await rawClient(t, ports.ingress);
    for (const letter of 'POST /1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n') {
      client.send(letter);
      await new Promise((resolve) => setImmediate(resolve));
    }
    client.send('hello');
    await client.sees(/\[POST \/1 5\]$/);
    client.send(get('a.test', '/2'));
    await client.sees(/\[GET \/2 0\]$/);
    const body = 'x'.repeat(300_000);
    const large = await rawClient(
      t,
      ports.ingress,
      `POST /3 HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    large.send(body);
    await large.sees(/\[POST \/3 300000\]$/);
  });

  test('ends or passes TLS like the HTTPS port', async (t) => {
    const behind = await recorder(t);
    const { ports, dial } = await openListeners(t, behind.port);
    const socket = await dial(ports.ingress, 'a.cloud.test');
    await says(socket, get('a.cloud.test'), /\[GET \/ 0\]$/);
    await says(socket, `POST /2 HTTP/1.1\r\nHost: a.cloud.test\r\nContent-Length: 5\r\n\r\nhello`, /\[POST \/2 5\]$/);

    const { other } = await certificates();
    const server = createServer({ ...other }, (secured) => {
      secured.on('error', () => {});
      secured.pipe(secured);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => void server.close());
    const address = server.address();
    const passing = await openListeners(t, typeof address === 'object' && address !== null ? address.port : 0);
    const passed = await passing.dial(passing.ports.ingress, 'passed.test', { checkServerIdentity: () => undefined });
    assert.equal(passed.getPeerCertificate().subject.CN, 'other.test');
    await says(passed, 'hello', /^hello$/);
    assert.equal(passing.long[0]?.kind, 'passthrough');
    passed.destroy();
  });
});

describe('a client that speaks another protocol than the port', () => {
  test('gets plain HTTP on the TLS port refused with an alert, and TLS on the HTTP port with 400', async (t) => {
    const behind = await recorder(t);
    const { ports } = await openListeners(t, behind.port);
    assert.equal(
      Buffer.from(await exchange(ports.https, get('a.cloud.test')), 'latin1').toString('hex'),
      '15030300020232',
    );
    assert.match(await exchange(ports.http, '\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\n'), /^HTTP\/1\.1 400 /);
    assert.equal(Buffer.from(await exchange(ports.https, 'SSH-2.0-x\r\n'), 'latin1').toString('hex'), '15030300020232');
    assert.match(await exchange(ports.http, 'SSH-2.0-x\r\n'), /^HTTP\/1\.1 400 /);
    for (const first of ['\x00\x01\x02', '{"a":1}', 'EHLO a.test\r\n\r\n', 'get / HTTP/1.1\r\n'])
      assert.doesNotMatch(await exchange(ports.ingress, first), /HTTP\/1\.1 200/, first);
    assert.deepEqual(behind.seen, []);
  });

  test('is not believed when it forges a PROXY header', async (t) => {
    const behind = await recorder(t);
    const { ports } = await openListeners(t, behind.port);
    const v1 = 'PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n';
    const v2 = '\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x09\x7f\x00\x00\x01\x00\x01\x00\x02';
    for (const header of [v1, v2]) {
      assert.match(await exchange(ports.http, header + get('a.test')), /^HTTP\/1\.1 400 /);
      assert.doesNotMatch(await exchange(ports.ingress, header + get('a.test')), /200 OK/);
      await assert.rejects(tlsBehind(ports.https, header), /ended|reset|alert/i);
    }
    assert.deepEqual(behind.seen, []);
  });
});

describe('a client that says hello, one byte, or nothing', () => {
  test('is given up after the time for it, wherever it stopped', async (t) => {
    const behind = await recorder(t);
    const { ports } = await openListeners(t, behind.port, { timeouts: { headMs: 300 }, firstBytesMs: 300 });
    const clients = await Promise.all([
      rawClient(t, ports.http, 'G'),
      rawClient(t, ports.https, '\x16'),
      rawClient(t, ports.ingress, 'G'),
      rawClient(t, ports.ingress, 'SS'),
      rawClient(t, ports.ingress, '\x16\x03'),
      // Waits for the server to speak first.
      rawClient(t, ports.ingress),
      rawClient(t, ports.https),
      rawClient(t, ports.http),
    ]);
    const texts = await Promise.all(clients.map((client) => client.ended()));
    assert.match(texts[0] ?? '', /^HTTP\/1\.1 408 /);
    assert.deepEqual(texts.slice(1), Array(7).fill(''));
    // A whole hello, and then silence: the handshake has its time, too.
    const hello = await helloOf('a.cloud.test');
    const silent = await rawClient(t, ports.https);
    silent.socket.write(hello);
    await silent.ended();
    assert.deepEqual(behind.seen, []);
  });
});

describe('a TLS connection is for the one host that it was opened for', () => {
  test('every other Host is misdirected, whichever tenant it is of; the connection goes on', async (t) => {
    const behind = await recorder(t);
    const { ports, dial, asked, log } = await openListeners(t, behind.port);
    const socket = await dial(ports.https, 'a.cloud.test');
    for (const host of [
      'b.cloud.test',
      'cloud.test',
      'abcdefghijk1.compute.cloud.test',
      'other.test',
      '127.0.0.1',
      'x.a.cloud.test',
    ])
      assert.match(
        await says(socket, get(host), /opened for another host name\.\n$/),
        /^HTTP\/1\.1 421 Misdirected Request\r\n/,
      );
    assert.deepEqual([asked.length, log.at(-1)?.status], [0, 421]);
    for (const host of ['a.cloud.test', 'A.Cloud.Test', `a.cloud.test:${ports.https}`, 'a.cloud.test.'])
      await says(socket, get(host, `/${host.length}`), new RegExp(`\\[GET /${host.length} 0\\]$`));
    // A body that was not read ends the connection, so that it is never taken for a request.
    await says(
      socket,
      `POST / HTTP/1.1\r\nHost: b.cloud.test\r\nContent-Length: 99\r\n\r\n${get('a.cloud.test', '/hidden')}`,
      /421 [\s\S]*Connection: close/,
    );
    await until(() => socket.readableEnded || socket.destroyed, { what: 'the connection ends' });
    assert.ok(!behind.seen.some(([, path]) => path === '/hidden'));
  });

  test('a session is not carried over to another certificate, and over to another name only as that name', async (t) => {
    const behind = await recorder(t);
    const { ports, dial, sessionOf, authority } = await openListeners(t, behind.port);
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const first = await dial(ports.https, 'a.cloud.test', { maxVersion });
      await says(first, get('a.cloud.test'), /\[GET \/ 0\]$/);
      const ticket = await sessionOf(first);
      first.destroy();
      const again = await dial(ports.https, 'a.cloud.test', { maxVersion, session: ticket });
      assert.equal(again.isSessionReused(), true, maxVersion);
      again.destroy();
      const other = await dial(ports.https, 'other.test', { maxVersion, session: ticket, ca: authority.cert });
      assert.equal(other.isSessionReused(), false, maxVersion);
      await says(other, get('a.cloud.test'), /^HTTP\/1\.1 421 /);
      other.destroy();
      const sibling = await dial(ports.https, 'b.cloud.test', { maxVersion, session: ticket });
      await says(sibling, get('a.cloud.test'), /^HTTP\/1\.1 421 /);
      await says(sibling, get('b.cloud.test'), /\[GET \/ 0\]$/);
      sibling.destroy();
    }
  });
});

describe('a proxy in front', () => {
  const local = parseTrusted('127.0.0.0/8, 10.0.0.0/8, 2001:db8::/32') ?? (() => false);
  const forged = (list: string) => `GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: ${list}\r\n\r\n`;

  test('is not believed unless the operator named it', async (t) => {
    const { ports } = await openListeners(t, await telling(t));
    assert.match(await exchange(ports.http, forged('203.0.113.9')), /<127\.0\.0\.1 http a\.test>$/);
    const others = parseTrusted('192.0.2.0/24');
    assert.ok(others !== undefined);
    const other = await openListeners(t, await telling(t), { proxies: { isTrusted: others, sendHeader: false } });
    assert.match(await exchange(other.ports.http, forged('203.0.113.9')), /<127\.0\.0\.1 http a\.test>$/);
  });

  test('says who its client is in X-Forwarded-For: the last that it does not trust itself', async (t) => {
    const { ports, log, asked } = await openListeners(t, await telling(t), {
      proxies: { isTrusted: local, sendHeader: false },
    });
    for (const [list, client] of [
      ['203.0.113.9', '203.0.113.9'],
      ['198.51.100.1, 203.0.113.9', '203.0.113.9'],
      ['203.0.113.9, 10.1.2.3', '203.0.113.9'],
      ['203.0.113.9,10.1.2.3\r\nX-Forwarded-For: 10.9.9.9', '203.0.113.9'],
      ['2001:db8::1, 2001:db9::7 , 2001:db8::2', '2001:db9::7'],
      ['10.1.1.1', '10.1.1.1'],
      ['203.0.113.9, nonsense', '127.0.0.1'],
      ['203.0.113.9:80', '127.0.0.1'],
      ['', '127.0.0.1'],
    ] as const) {
      assert.match(await exchange(ports.http, forged(list)), new RegExp(`<${client} http a\\.test>$`), list);
      assert.deepEqual([log.at(-1)?.address, asked.at(-1)?.address], [client, client], list);
    }
    assert.equal(clientBehind('192.0.2.1', ['203.0.113.9'], local), '192.0.2.1');
  });

  test('that ended TLS says so in X-Forwarded-Proto: its last word counts, and nobody else’s', async (t) => {
    const proto = (lines: string) => `GET / HTTP/1.1\r\nHost: a.test\r\n${lines}\r\n`;
    const { ports, asked } = await openListeners(t, await telling(t), {
      proxies: { isTrusted: local, sendHeader: false },
    });
    for (const [lines, scheme] of [
      ['X-Forwarded-Proto: https\r\n', 'https'],
      ['X-Forwarded-Proto: HTTPS \r\n', 'https'],
      ['X-Forwarded-Proto: http, https\r\n', 'https'],
      ['X-Forwarded-Proto: http\r\nX-Forwarded-Proto: wss\r\n', 'https'],
      ['X-Forwarded-Proto: https, http\r\n', 'http'],
      ['X-Forwarded-Proto: httpsx\r\n', 'http'],
      ['X-Forwarded-Proto:\r\n', 'http'],
      ['', 'http'],
    ] as const) {
      assert.match(
        await exchange(ports.http, proto(lines)),
        new RegExp(`<127\\.0\\.0\\.1 ${scheme} a\\.test>$`),
        lines,
      );
      assert.equal(asked.at(-1)?.isEncrypted, scheme === 'https', lines);
    }
    const client = await rawClient(t, ports.http, proto('X-Forwarded-Proto: https\r\n'));
    await client.sees(/ https a\.test>$/);
    // The next request of the same connection has a word of its own.
    client.send(get('a.test'));
    await client.sees(/ http a\.test>$/);
    const others = parseTrusted('192.0.2.0/24');
    assert.ok(others !== undefined);
    for (const proxies of [undefined, { isTrusted: others, sendHeader: false }]) {
      const stranger = await openListeners(t, await telling(t), proxies === undefined ? {} : { proxies });
      assert.match(await exchange(stranger.ports.http, proto('X-Forwarded-Proto: https\r\n')), / http a\.test>$/);
      assert.equal(stranger.asked.at(-1)?.isEncrypted, false);
    }
  });

  test('says it by the PROXY protocol, versions 1 and 2, on every port, and has no limit of its own', async (t) => {
    const port = await telling(t);
    const { ports, log } = await openListeners(t, port, {
      proxies: { isTrusted: local, sendHeader: true },
      limits: { perAddress: 1 },
    });
    const v2 = (command: number, family: number, addresses: number[]) =>
      Buffer.from([
        ...Buffer.from('\r\n\r\n\0\r\nQUIT\n'),
        0x20 | command,
        family,
        0,
        addresses.length,
        ...addresses,
      ]).toString('latin1');
    const four = [203, 0, 113, 9, 127, 0, 0, 1, 0, 1, 0, 80];
    const six = [0x20, 1, 0xd, 0xb9, ...Array(11).fill(0), 7, ...Array(16).fill(0), 0, 1, 0, 80];
    for (const [header, client] of [
      ['PROXY TCP4 203.0.113.9 127.0.0.1 65535 80\r\n', '203.0.113.9'],
      ['PROXY TCP6 2001:db9::7 ::1 1 80\r\n', '2001:db9::7'],
      ['PROXY UNKNOWN\r\n', '127.0.0.1'],
      ['PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n', '127.0.0.1'],
      [v2(1, 0x11, four), '203.0.113.9'],
      [v2(1, 0x11, [...four, 4, 0, 2, 9, 9]), '203.0.113.9'],
      [v2(1, 0x21, six), '2001:db9::7'],
      [v2(0, 0x11, four), '127.0.0.1'],
      [v2(1, 0, []), '127.0.0.1'],
    ] as const) {
      // The word of X-Forwarded-For is worth nothing then: it is the client's.
      for (const to of [ports.http, ports.ingress])
        assert.match(
          await exchange(to, header + forged('192.0.2.77')),
          new RegExp(`<${client} http a\\.test>$`),
          header,
        );
      const client2 = await rawClient(t, ports.ingress);
      for (const letter of header + get('a.test')) {
        client2.send(letter);
        if (Math.random() < 0.3) await new Promise((resolve) => setImmediate(resolve));
      }
      await client2.sees(new RegExp(`<${client} http a\\.test>$`));
      client2.socket.destroy();
      await until(() => client2.socket.destroyed, { what: 'it is closed' });
    }
    await tlsBehind(ports.https, 'PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n');
    const before = log.length;
    for (const header of [
      '',
      'PROXY TCP4 203.0.113.9 127.0.0.1 65536 80\r\n',
      'PROXY TCP4 203.0.113.256 127.0.0.1 1 80\r\n',
      'PROXY TCP6 203.0.113.9 127.0.0.1 1 80\r\n',
      'PROXY  TCP4 203.0.113.9 127.0.0.1 1 80\r\n',
      'PROXY TCP4 203.0.113.9 127.0.0.1 1 80\n',
      'PROXY TCP4 203.0.113.9 127.0.0.1 1\r\n',
      'PROXY UNKNOWNX\r\n',
      `PROXY UNKNOWN ${'x'.repeat(200)}\r\n`,
      v2(2, 0x11, four),
      v2(1, 0x12, four),
      v2(1, 0x11, four.slice(0, 11)),
      v2(1, 0x21, four),
      `${'\r\n\r\n\0\r\nQUIT\n'}\x11\x11\x00\x0c`,
    ])
      assert.equal(await exchange(ports.http, header + get('a.test')), '', JSON.stringify(header));
    assert.equal(log.length, before);
    // Two connections of one client are one too many here, also behind the proxy.
    const one = await rawClient(t, ports.http, `PROXY TCP4 203.0.113.10 127.0.0.1 1 80\r\n${get('a.test')}`);
    await one.sees(/<203\.0\.113\.10 /);
    assert.equal(await exchange(ports.http, `PROXY TCP4 203.0.113.10 127.0.0.1 1 80\r\n${get('a.test')}`), '');
    one.socket.destroy();
  });

  test('is known to what lives on its own by its client, too', async (t) => {
    const port = await rawOrigin(t, (socket) => {
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
      );
    });
    const { ports, long } = await openListeners(t, port, { proxies: { isTrusted: local, sendHeader: false } });
    const client = await rawClient(
      t,
      ports.http,
      'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n',
    );
    await client.sees(/^HTTP\/1\.1 101 /);
    assert.deepEqual([long[0]?.address, long[0]?.kind], ['203.0.113.9', 'upgrade']);
    client.socket.destroy();
  });

  test('is given in addresses and networks, and in nothing else', () => {
    for (const good of ['10.0.0.0/8', '192.0.2.7', '::1', '2001:db8::/32,10.0.0.0/8', '0.0.0.0/0'])
      assert.ok(parseTrusted(good), good);
    for (const bad of [
      '',
      ',',
      'proxy.test',
      '10.0.0.0/33',
      '10.0.0.0/-1',
      '10.0.0.0/08',
      '10.0.0.0/8/8',
      '::/129',
      '10.0.0',
      '10.0.0.0/8,',
      'fe80::1%eth0',
    ])
      assert.equal(parseTrusted(bad), undefined, bad);
  });
});

/** A TLS request to a.cloud.test behind other first bytes; rejects when there is no handshake. */
async function tlsBehind(port: number, first: string): Promise<void> {
  const { authority } = await certificates();
  const raw = connect(port, '127.0.0.1');
  raw.on('error', () => {});
  await once(raw, 'connect');
  raw.write(first, 'latin1');
  const tls = await import('node:tls');
  const secured = tls.connect({ socket: raw, servername: 'a.cloud.test', ca: authority.cert });
  secured.on('error', () => {});
  try {
    await Promise.race([
      once(secured, 'secureConnect'),
      once(raw, 'close').then(() => Promise.reject(new Error('ended'))),
    ]);
    await says(secured, get('a.cloud.test'), /<203\.0\.113\.9 https a\.cloud\.test>/);
  } finally {
    secured.destroy();
    raw.destroy();
  }
}

/** The bytes of a ClientHello of OpenSSL. */
async function helloOf(servername: string): Promise<Buffer> {
  const net = await import('node:net');
  const tls = await import('node:tls');
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const secured = tls.connect({
    host: '127.0.0.1',
    port: typeof address === 'object' && address !== null ? address.port : 0,
    servername,
  });
  secured.on('error', () => {});
  const [socket] = await once(server, 'connection');
  const [bytes] = await once(socket, 'data');
  secured.destroy();
  socket.destroy();
  server.close();
  return bytes;
}
