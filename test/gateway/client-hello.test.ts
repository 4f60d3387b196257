/** ClientHellos, real and forged: the server name and the protocols, or a refusal, however they are cut. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, test } from 'node:test';
import { connect } from 'node:tls';
import { MAX_CLIENT_HELLO, readClientHello } from '../../transports/gateway/tls/client-hello.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const u16 = (n: number) => Buffer.of(n >> 8, n & 255);
const v8 = (...parts: Buffer[]) => Buffer.concat([Buffer.of(Buffer.concat(parts).length), ...parts]);
const v16 = (...parts: Buffer[]) => Buffer.concat([u16(Buffer.concat(parts).length), ...parts]);
const record = (body: Buffer, type = 22) => Buffer.concat([Buffer.of(type, 3, 1), v16(body)]);
const handshake = (body: Buffer, type = 1) => Buffer.concat([Buffer.of(type, 0), v16(body)]);
const extension = (type: number, ...body: Buffer[]) => Buffer.concat([u16(type), v16(...body)]);
const name = (text: string, type = 0) => Buffer.concat([Buffer.of(type), v16(Buffer.from(text, 'latin1'))]);
const sni = (...names: Buffer[]) => extension(0, v16(...names));
const alpn = (...protocols: string[]) => extension(16, v16(...protocols.map((protocol) => v8(Buffer.from(protocol)))));
const start = Buffer.concat([
  u16(0x0303),
  Buffer.alloc(32, 7),
  v8(Buffer.alloc(32)),
  v16(u16(0x1301)),
  v8(Buffer.of(0)),
]);
const helloBody = (...extensions: Buffer[]) => Buffer.concat([start, v16(...extensions)]);
const hello = (...extensions: Buffer[]) => record(handshake(helloBody(...extensions)));

/** What a real client sends first. */
async function realHello(options: { servername?: string; ALPNProtocols?: string[] }): Promise<Buffer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options });
  client.on('error', () => {});
  const [socket] = await once(server, 'connection');
  const [bytes] = await once(socket, 'data');
  client.destroy();
  socket.destroy();
  server.close();
  return Buffer.from(bytes);
}

describe('a ClientHello', () => {
  test('of a real client names its server and protocols, or none', async () => {
    const bytes = await realHello({ servername: 'web.Example.test', ALPNProtocols: ['h2', 'http/1.1'] });
    assert.deepEqual(readClientHello(bytes), { serverName: 'web.example.test', protocols: ['h2', 'http/1.1'] });
    assert.deepEqual(readClientHello(await realHello({})), { serverName: undefined, protocols: [] });
    assert.deepEqual(readClientHello(record(handshake(start))), { serverName: undefined, protocols: [] });
  });

  test('is incomplete until its last byte, wherever it is cut', async () => {
    const bytes = await realHello({ servername: 'a.test' });
    for (let end = 0; end < bytes.length; end++)
      assert.equal(readClientHello(bytes.subarray(0, end)), 'incomplete', `${end}`);
    assert.deepEqual(readClientHello(Buffer.concat([bytes, Buffer.from('more')])), {
      serverName: 'a.test',
      protocols: [],
    });
  });

  test('may lie in many records', () => {
    const message = handshake(helloBody(sni(name('a.test')), alpn('http/1.1')));
    for (const size of [1, 2, 3, 4, 5, 17, 64]) {
      const records: Buffer[] = [];
      for (let at = 0; at < message.length; at += size) records.push(record(message.subarray(at, at + size)));
      const bytes = Buffer.concat(records);
      assert.deepEqual(readClientHello(bytes), { serverName: 'a.test', protocols: ['http/1.1'] }, `${size}`);
      for (let end = 0; end < bytes.length; end += 3)
        assert.equal(readClientHello(bytes.subarray(0, end)), 'incomplete');
    }
  });

  test('with lengths that cannot be is refused at once', () => {
    for (const bytes of [
      Buffer.of(22, 3, 1, 0, 0),
      Buffer.of(22, 3, 1, 0xff, 0xff),
      Buffer.of(22, 3, 1, 0x40, 0x01),
      record(Buffer.of(1, 0xff, 0xff, 0xff)),
      record(Buffer.of(1, 0x01, 0x00, 0x00)),
      Buffer.concat([record(handshake(start).subarray(0, 9)), Buffer.of(22, 3, 1, 0, 0)]),
      Buffer.concat([record(handshake(start).subarray(0, 9)), Buffer.of(23, 3, 1, 0, 1)]),
    ])
      assert.equal(readClientHello(bytes), 'invalid', bytes.toString('hex'));
  });

  test('that is something else is refused at its first bytes', () => {
    for (const bytes of [
      Buffer.of(0x80, 0x2e, 1, 3, 1),
      Buffer.from('GET / HTTP/1.1\r\n'),
      Buffer.from('SSH-2.0-x\r\n'),
      Buffer.of(22, 2),
      record(handshake(start, 2)),
      record(Buffer.of(11)),
    ])
      assert.equal(readClientHello(bytes), 'invalid', bytes.toString('hex'));
  });

  test('with two names, an extension twice, or one cut short is refused', () => {
    const good = name('a.test');
    for (const [what, bytes] of Object.entries({
      'two names': hello(sni(good, name('b.test'))),
      'two extensions': hello(sni(good), sni(name('b.test'))),
      'two of an unknown kind': hello(extension(4711), extension(4711)),
      'no name in the list': hello(sni()),
      'a name of another type': hello(sni(name('a.test', 1))),
      'a name cut short': hello(extension(0, v16(good.subarray(0, 5)))),
      'bytes after the list': hello(extension(0, v16(good), Buffer.of(0))),
      'an empty extension': hello(extension(0)),
      'extensions cut short': record(handshake(Buffer.concat([start, u16(9), Buffer.alloc(3)]))),
      'bytes after the extensions': record(handshake(Buffer.concat([helloBody(sni(good)), Buffer.of(0)]))),
      'no suites': record(handshake(Buffer.concat([u16(0x0303), Buffer.alloc(32), v8(), v16(), v8(Buffer.of(0))]))),
      'half a suite': record(
        handshake(Buffer.concat([u16(0x0303), Buffer.alloc(32), v8(), v16(Buffer.of(1)), v8(Buffer.of(0))])),
      ),
      'a long session id': record(
        handshake(Buffer.concat([u16(0x0303), Buffer.alloc(32), v8(Buffer.alloc(33)), v16(u16(1)), v8(Buffer.of(0))])),
      ),
      'an empty protocol': hello(extension(16, v16(v8()))),
      'no protocols': hello(extension(16, v16())),
      'protocols cut short': hello(extension(16, v16(Buffer.of(9, 1)))),
    }))
      assert.equal(readClientHello(bytes), 'invalid', what);
  });

  test('with a name that is none is refused; upper case and a last dot are forgiven', () => {
    assert.deepEqual(readClientHello(hello(sni(name('A.Test.')))), { serverName: 'a.test', protocols: [] });
    for (const text of [
      '',
      '.',
      'a..b',
      'a\0.test',
      '\xff\xfe',
      '192.0.2.1',
      '::1',
      '[::1]',
      '*.a.test',
      'a b',
      'a/b',
      '-a.test',
      'a-.test',
      `${'a'.repeat(64)}.test`,
      `${'a.'.repeat(130)}b`,
      'a.test:443',
      'bücher.test',
    ])
      assert.equal(readClientHello(hello(sni(name(text)))), 'invalid', JSON.stringify(text));
  });

  test('with GREASE, unknown extensions and very large keys is read; beyond the bound it is refused', () => {
    const large = extension(51, Buffer.alloc(4000));
    assert.deepEqual(
      readClientHello(
        hello(
          extension(0x0a0a),
          large,
          extension(0xfe0d, Buffer.alloc(200)),
          sni(name('a.test')),
          extension(0x1a1a, Buffer.of(0)),
        ),
      ),
      {
        serverName: 'a.test',
        protocols: [],
      },
    );
    const huge = handshake(helloBody(extension(51, Buffer.alloc(MAX_CLIENT_HELLO))));
    const records: Buffer[] = [];
    for (let at = 0; at < huge.length; at += 16_000) records.push(record(huge.subarray(at, at + 16_000)));
    assert.equal(readClientHello(Buffer.concat(records).subarray(0, 1000)), 'invalid');
    // A hello that stays open is bounded by what it says it is.
    const drip = Array.from({ length: 4000 }, (_, i) => record(i === 0 ? Buffer.of(1, 0, 0x3f, 0xff) : Buffer.of(0)));
    assert.equal(readClientHello(Buffer.concat(drip)), 'invalid');
  });
});
