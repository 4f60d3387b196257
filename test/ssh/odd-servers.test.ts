/** SSH servers that a container could run to harm or confuse the platform. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import ssh2, { type Connection, type ServerChannel, type Session } from 'ssh2';
import type { Log } from '../../proto/ports/log.ts';
import { generateKeyPair } from '../../transports/ssh/keys.ts';
import { sshShells } from '../../transports/ssh/shells.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { dialLoopback } from '../support/ssh/sshd.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const SIZE = { cols: 80, rows: 24, term: 'xterm' };
const silent: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
const never = () => new AbortController().signal;

/** Serves sessions to anyone, as `onSession` likes, until the test ends. Returns what opens shells on it. */
async function serve(t: TestContext, onSession: (session: Session, connection: Connection) => void) {
  const server = new ssh2.Server({ hostKeys: [generateKeyPair('host').privateKey] }, (connection) => {
    connection.on('error', () => {});
    connection.on('authentication', (context) => context.accept());
    connection.on('session', (accept) => onSession(accept(), connection));
    t.after(() => connection.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const privateKey = async () => generateKeyPair('platform').privateKey;
  return sshShells({ dial: () => dialLoopback(portOf(server)), privateKey, username: 'root', log: silent });
}

/** The port a server was given. */
function portOf(server: ssh2.Server): number {
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

/** Sends channel data whether or not the window allows it. */
function sendPastWindow(channel: ServerChannel, data: Buffer): void {
  const inner: unknown = Reflect.get(Reflect.get(channel, '_client') as object, '_protocol');
  const outgoing: unknown = Reflect.get(channel, 'outgoing');
  const protocol = inner as { channelData(id: number, data: Buffer): void };
  protocol.channelData((outgoing as { id: number }).id, data);
}

test('a login that the server ends while it is under way is tried again, three times in all', async (t) => {
  for (const [lost, opens] of [
    [2, true],
    [9, false],
  ] as const) {
    let logins = 0;
    const shells = await serve(t, (session, connection) => {
      logins += 1;
      const isLost = logins <= lost;
      session.on('pty', (accept) => {
        // As when the keys of the container change.
        if (isLost) connection.end();
        else accept();
      });
      session.on('shell', (accept) => void accept().on('error', () => {}));
    });
    const opening = shells.open('c1', SIZE, never());
    if (opens) (await opening).close();
    else await assert.rejects(opening, { code: 'unavailable', message: 'The connection to the container was lost.' });
    assert.equal(logins, 3);
  }
});

test('a server that ignores the window is cut off', async (t) => {
  let channel: ServerChannel | undefined;
  const shells = await serve(t, (session) => {
    session.on('pty', (accept) => accept());
    session.on('shell', (accept) => {
      channel = accept();
      channel.on('error', () => {});
    });
  });
  const shell = await shells.open('c1', SIZE, never());
  const failure = once(shell.stream, 'error');
  const to = await until(() => channel);
  const block = Buffer.alloc(32 * 1024 - 1); // Odd, so that the window passes zero instead of reaching it.
  for (let i = 0; i < 512 && !shell.stream.destroyed; i++) {
    sendPastWindow(to, block);
    await new Promise(setImmediate);
  }
  const [error] = await failure;
  assert.equal(error.code, 'unavailable');
  assert.match(error.message, /more than it was allowed/);
});

test('a server without terminals refuses the shell', async (t) => {
  const shells = await serve(t, (session) => {
    session.on('pty', (_accept, reject) => reject());
  });
  await assert.rejects(shells.open('c1', SIZE, never()), { code: 'refused', message: /grant a terminal/ });
});

test('a server that leaves when a terminal is asked for', async (t) => {
  const shells = await serve(t, (session, connection) => {
    session.on('pty', () => connection.end());
  });
  await assert.rejects(shells.open('c1', SIZE, never()), { name: 'EngineError', code: 'unavailable' });
});

test('a server that never answers: keepalives end the shell', async (t) => {
  const server = new ssh2.Server({ hostKeys: [generateKeyPair('host').privateKey] }, (connection) => {
    connection.on('error', () => {});
    connection.on('authentication', (context) => context.accept());
    connection.on('session', (accept) => {
      const session = accept();
      session.on('pty', (acceptPty) => acceptPty());
      session.on('shell', (acceptShell) => acceptShell());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const socket = await dialLoopback(portOf(server));
  const shells = sshShells({
    dial: async () => socket,
    privateKey: async () => generateKeyPair('platform').privateKey,
    username: 'root',
    log: silent,
    keepaliveMs: 20,
  });
  const shell = await shells.open('c1', SIZE, never());
  shell.stream.resume();
  const failure = once(shell.stream, 'error');
  socket.pause(); // From here on nothing the server says arrives.
  const [error] = await failure;
  assert.equal(error.code, 'unavailable');
});

test('stderr of a shell is part of its output', async (t) => {
  const shells = await serve(t, (session) => {
    session.on('pty', (accept) => accept());
    session.on('shell', (accept) => {
      const channel = accept();
      channel.stderr.write('one ');
      channel.write('two ');
      channel.exit(3);
      channel.end();
    });
  });
  const shell = await shells.open('c1', SIZE, never());
  let text = '';
  for await (const chunk of shell.stream) text += String(chunk);
  // The two are streams of their own: either may come first.
  assert.deepEqual(text.trim().split(' ').sort(), ['one', 'two']);
  assert.deepEqual(await shell.ended, { code: 3, signal: null });
});
