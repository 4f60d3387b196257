/** HTTP behind TLS that ends here, through the proxy, on wires of both kinds: much in both directions, and readers that are slow. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:https';
import { connect as connectRaw } from 'node:net';
import { type TestContext, test } from 'node:test';
import { connect } from 'node:tls';
import { HttpProxy } from '../../transports/gateway/h1/server.ts';
import { Upstreams } from '../../transports/gateway/h1/upstreams.ts';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { listenWires } from '../../transports/gateway/tcp/listen.ts';
import { splice } from '../../transports/gateway/tcp/splice.ts';
import { certificateContext, TlsFront } from '../../transports/gateway/tls/front.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import { useWires } from '../../transports/wire/wires.ts';
import { httpOrigin, rawOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const LONG_MS = 300_000;

/** The proxy behind TLS; everything goes to an origin that sends back what it gets. */
async function open(t: TestContext, kind: 'handle' | 'stream', to?: number) {
  useWires(kind);
  t.after(() => useWires('handle'));
  const authority = await makeAuthority('Troupe (test)', Date.now());
  const context = certificateContext(await issueCertificate(authority, ['a.test'], Date.now()));
  const origin = to ?? (await httpOrigin(t, (incoming, response) => incoming.pipe(response)));
  const upstreams = new Upstreams();
  const proxy = new HttpProxy({
    upstreams,
    decider: { decide: ({ target }) => ({ forward: { host: '127.0.0.1', port: origin }, target }) },
    // None of them may be what ends a connection here.
    timeouts: { headMs: LONG_MS, idleMs: LONG_MS, stallMs: LONG_MS },
    onSwitch: (client, to) => splice(client, to, { idleMs: LONG_MS }),
  });
  const front = new TlsFront({
    decide: () => ({ end: context }),
    onPlain: (socket, address, name) => proxy.serve(socket, 443, address, undefined, name),
    onPass: (wire) => wire.destroy(),
  });
  const listener = await listenWires('127.0.0.1', 0, new Admission(), (wire, address) => front.accept(wire, address));
  t.after(async () => {
    await proxy.close(0);
    upstreams.close();
    await listener.close();
  });
  return { port: listener.port, ca: authority.cert, proxy };
}

for (const kind of ['handle', 'stream'] as const) {
  test(`bodies pass whole both ways, several at once, also to slow readers (${kind})`, async (t) => {
    const { port, ca } = await open(t, kind);
    const pass = async (headers: Record<string, string | number>, body: Buffer) => {
      const outgoing = request({
        ...{ port, host: '127.0.0.1', servername: 'a.test', ca, method: 'POST', agent: false },
        headers: { host: 'a.test', ...headers },
      });
      outgoing.end(body);
      const [response] = await once(outgoing, 'response');
      const hash = createHash('sha256');
      for await (const chunk of response) {
        hash.update(chunk);
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.equal(hash.digest('hex'), createHash('sha256').update(body).digest('hex'));
    };
    // Of different sizes: what one may overwrite of another is seen.
    const bodies = [6_000_001, 1_000_003, 300_007, 20_011].map((size) => randomBytes(size));
    await Promise.all(
      bodies.flatMap((body) => [
        pass({ 'content-length': body.length }, body),
        pass({ 'transfer-encoding': 'chunked' }, body),
      ]),
    );
  });

  test(`many requests on one connection, and its end by either side (${kind})`, async (t) => {
    const { port, ca, proxy } = await open(t, kind);
    const socket = connect({ port, host: '127.0.0.1', servername: 'a.test', ca }).on('error', () => {});
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
    });
    for (let i = 1; i <= 20; i++) {
      socket.write(`POST /${i} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n${String(i).padStart(3, '.')}`);
      await until(() => text.split('HTTP/1.1 200 OK').length === i + 1 && text.includes(String(i).padStart(3, '.')), {
        what: `answer ${i}`,
      });
    }
    assert.equal(proxy.size, 1);
    socket.end('GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n');
    await once(socket, 'close');
    await until(() => proxy.size === 0, { what: 'the connection is forgotten' });
    const gone = connect({ port, host: '127.0.0.1', servername: 'a.test', ca }).on('error', () => {});
    await once(gone, 'secureConnect');
    gone.write('POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\n123');
    await until(() => proxy.size === 1, { what: 'it is there' });
    gone.destroy();
    await until(() => proxy.size === 0, { what: 'it is gone' });
  });

  test(`a record that cannot be decrypted ends the connection, whatever it is at, and its alert is sent (${kind})`, async (t) => {
    let held = 0;
    const origin = await rawOrigin(t, (socket) => {
      socket.on('data', (chunk: Buffer) => {
        if (chunk.includes('Upgrade: x')) {
          socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nswitched');
        } else if (chunk.includes('/held')) held++;
        else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      });
      socket.on('end', () => socket.end());
    });
    const { port, ca, proxy } = await open(t, kind, origin);
    const ask = (target: string, fields = '') => `GET ${target} HTTP/1.1\r\nHost: a.test\r\n${fields}\r\n`;
    for (const [first, isThere] of [
      ['', () => true],
      ['GET / HT', () => true],
      [ask('/'), (text: string) => text.endsWith('ok')],
      [ask('/held'), () => held === 1],
      [ask('/', 'Connection: Upgrade\r\nUpgrade: x\r\n'), (text: string) => text.endsWith('switched')],
    ] as const) {
      const raw = connectRaw({ port, host: '127.0.0.1' }).on('error', () => {});
      const socket = connect({ socket: raw, servername: 'a.test', ca });
      let text = '';
      let alert: unknown;
      socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
      socket.on('error', (error) => (alert = error));
      await once(socket, 'secureConnect');
      if (first !== '') socket.write(first);
      await until(() => isThere(text), { what: `the answer to ${first}` });
      const closed = new Promise((resolve) => socket.once('close', resolve));
      raw.write(Buffer.concat([Buffer.of(0x17, 3, 3, 0, 40), randomBytes(40)]));
      await closed;
      assert.match(String(alert), /bad.record.mac/i, first);
      await until(() => proxy.size === 0, { what: 'the connection is forgotten' });
    }
  });
}
