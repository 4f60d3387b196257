/** TLS with real clients: what is ended, what is passed, what is refused and how. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect as connectRaw } from 'node:net';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { type ConnectionOptions, connect, createServer, type TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { listenWires } from '../../transports/gateway/tcp/listen.ts';
import { splice } from '../../transports/gateway/tcp/splice.ts';
import { certificateContext, type TlsDecision, TlsFront } from '../../transports/gateway/tls/front.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import { describeCertificate, type Pem } from '../../transports/gateway/tls/pem.ts';
import { wireOf } from '../../transports/wire/wires.ts';
import { rawClient } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

let made: Promise<{ authority: Pem; own: Pem; other: Pem }> | undefined;
/** An authority, a certificate of the platform's and one of a container's. */
const certificates = () => {
  made ??= (async () => {
    const authority = await makeAuthority('Troupe (test)', Date.now());
    const issue = (...names: string[]) => issueCertificate(authority, names, Date.now());
    return { authority, own: await issue('cloud.test', '*.cloud.test'), other: await issue('c.compute.cloud.test') };
  })();
  return made;
};

/** A listener on a free port; plain text is echoed with the name before it. */
async function open(
  t: TestContext,
  decide?: (name: string | undefined) => TlsDecision | Promise<TlsDecision>,
  helloMs?: number,
) {
  const { authority, own, other } = await certificates();
  const context = certificateContext(own);
  const sockets = new Set<{ destroy(): void }>();
  const behind = createServer({ ...other }, (socket) => {
    socket.on('error', () => {});
    socket.write('the container ');
    socket.pipe(socket);
  });
  behind.listen(0, '127.0.0.1');
  await once(behind, 'listening');
  const address = behind.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const plain: { socket: TLSSocket; name: string }[] = [];
  const front = new TlsFront({
    decide:
      decide ??
      ((name) => {
        if (name === 'c.compute.cloud.test') return { passTo: { host: '127.0.0.1', port }, containerId: 'c' };
        return name?.endsWith('cloud.test') ? { end: context } : { refuse: true };
      }),
    onPlain: (socket, _address, name) => {
      plain.push({ socket, name });
      socket.on('error', () => {});
      socket.write(`${name} `);
      socket.pipe(socket);
    },
    onPass: (wire, _address, hello, { passTo }) => {
      const origin = connectRaw({ ...passTo, allowHalfOpen: true });
      sockets.add(origin);
      splice(wire, wireOf(origin), { first: hello, idleMs: 10_000 });
    },
    ...(helloMs === undefined ? {} : { helloMs }),
  });
  const listener = await listenWires('127.0.0.1', 0, new Admission(), (wire, from) => {
    sockets.add(wire);
    front.accept(wire, from);
  });
  t.after(async () => {
    const closed = listener.close();
    for (const socket of sockets) socket.destroy();
    behind.close();
    await closed;
  });
  const dial = (servername: string, options: ConnectionOptions = {}) =>
    connect({ ...{ host: '127.0.0.1', port: listener.port, servername, ca: authority.cert }, ...options });
  return { port: listener.port, dial, plain, authority };
}

/** What a TLS client is told first; rejects with its error. */
async function says(socket: TLSSocket, text: string): Promise<string> {
  let heard = '';
  const failed = once(socket, 'error').then(([error]) => Promise.reject(error));
  failed.catch(() => {});
  socket.on('data', (chunk: Buffer) => {
    heard += chunk;
  });
  socket.write(text);
  await Promise.race([until(() => heard.endsWith(text), { what: `${text} in ${heard}` }), failed]);
  socket.destroy();
  return heard;
}

describe('a TLS connection', () => {
  test('ends TLS for its own names, in TLS 1.2 and 1.3, and speaks only HTTP/1.1', async (t) => {
    const { dial } = await open(t);
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = dial('auth.cloud.test', {
        minVersion: version,
        maxVersion: version,
        ALPNProtocols: ['h2', 'http/1.1'],
      });
      await once(socket, 'secureConnect');
      assert.deepEqual([socket.authorized, socket.getProtocol(), socket.alpnProtocol], [true, version, 'http/1.1']);
      assert.equal(await says(socket, 'hello'), 'auth.cloud.test hello');
    }
    const none = dial('auth.cloud.test');
    await once(none, 'secureConnect');
    assert.equal(none.alpnProtocol, false);
    none.destroy();
    for (const options of [
      { ALPNProtocols: ['h2'] },
      { minVersion: 'TLSv1' as const, maxVersion: 'TLSv1.1' as const, ciphers: 'DEFAULT@SECLEVEL=0' },
    ]) {
      const [error] = await once(dial('auth.cloud.test', options), 'error');
      assert.match(String(error.code ?? error), /ALERT|PROTOCOL|ECONNRESET/);
    }
  });

  test('passes TLS of a container through untouched: its own certificate is seen', async (t) => {
    const { dial } = await open(t);
    const socket = dial('c.compute.cloud.test');
    await once(socket, 'secureConnect');
    assert.equal(socket.getPeerCertificate().subject.CN, 'c.compute.cloud.test');
    assert.equal(await says(socket, 'x'.repeat(200_000)), `the container ${'x'.repeat(200_000)}`);
  });

  test('refuses other names with the alert that says so, and no name at all', async (t) => {
    const { dial, port } = await open(t);
    for (const name of ['other.test', '']) {
      const [error] = await once(dial(name), 'error');
      assert.equal(error.code, 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME', name);
    }
    const client = await rawClient(t, port, 'GET / HTTP/1.1\r\n\r\n');
    assert.equal(Buffer.from(await client.ended(), 'latin1').toString('hex'), '15030300020232');
  });

  test('lets clients that come back resume', async (t) => {
    const { dial } = await open(t);
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const first = dial('auth.cloud.test', { maxVersion });
      const session = once(first, 'session');
      first.write('x');
      const [ticket] = await session;
      first.destroy();
      const second = dial('auth.cloud.test', { maxVersion, session: ticket });
      await once(second, 'secureConnect');
      assert.equal(second.isSessionReused(), true, maxVersion);
      second.destroy();
    }
  });

  test('gives up on who says nothing, and on who never ends a handshake', async (t) => {
    const { port, plain } = await open(t, undefined, 200);
    const silent = await rawClient(t, port);
    const half = await rawClient(t, port, '\x16\x03\x01');
    const { own } = await certificates();
    assert.ok(own.cert);
    assert.deepEqual([await silent.ended(), await half.ended(), plain.length], ['', '', 0]);
  });

  test('may take its time to decide; who left meanwhile is nobody’s', async (t) => {
    const { own } = await certificates();
    let release: (decision: TlsDecision) => void = () => {};
    let asked = 0;
    const { dial, plain } = await open(t, () => {
      asked++;
      return new Promise((resolve) => {
        release = resolve;
      });
    });
    const gone = dial('auth.cloud.test');
    gone.on('error', () => {});
    await until(() => asked === 1, { what: 'it is asked' });
    gone.destroy();
    release({ end: certificateContext(own) });
    const stays = dial('auth.cloud.test');
    await until(() => asked === 2, { what: 'it is asked again' });
    release({ end: certificateContext(own) });
    assert.equal(await says(stays, 'hello'), 'auth.cloud.test hello');
    assert.equal(plain.length, 1);
  });
});

test('the local authority makes certificates that OpenSSL accepts', async (t) => {
  const { authority, own } = await certificates();
  const folder = await tempDir(t);
  await writeFile(join(folder, 'ca.pem'), authority.cert);
  await writeFile(join(folder, 'own.pem'), own.cert);
  const { stdout } = await promisify(execFile)('openssl', [
    'verify',
    '-x509_strict',
    '-verify_hostname',
    'auth.cloud.test',
    '-CAfile',
    join(folder, 'ca.pem'),
    join(folder, 'own.pem'),
  ]);
  assert.match(stdout, /OK/);
  const { names, notAfter } = describeCertificate(own.cert);
  assert.deepEqual(names, ['cloud.test', '*.cloud.test']);
  assert.ok(notAfter.getTime() < Date.now() + 398 * 86_400_000);
});
