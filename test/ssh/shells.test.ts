import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { after, test } from 'node:test';
import type { Engine } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Shell, Shells } from '../../proto/ports/shell.ts';
import { generateKeyPair } from '../../transports/ssh/keys.ts';
import { type SshShellsOptions, sshShells } from '../../transports/ssh/shells.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { dialLoopback, type Sshd, skipWithoutSshd, startSshd } from '../support/ssh/sshd.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const SIZE = { cols: 80, rows: 24, term: 'xterm-256color' };
const silent: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
const sshd: Promise<Sshd> | undefined = skipWithoutSshd ? undefined : startSshd({ after });
/** A signal nobody aborts. */
const never = () => new AbortController().signal;
const real = { skip: skipWithoutSshd };

/** Shells of the test's sshd, and the sockets that were dialled for them. */
async function shells(options: Partial<SshShellsOptions> = {}): Promise<{ shells: Shells; sockets: Duplex[] }> {
  const server = await sshd;
  assert.ok(server);
  const sockets: Duplex[] = [];
  const dial: Engine['dial'] = async (...args) => {
    const socket = await (options.dial ?? server.dial)(...args);
    sockets.push(socket);
    return socket;
  };
  const privateKey = async () => server.user.privateKey;
  return { shells: sshShells({ privateKey, username: server.username, log: silent, ...options, dial }), sockets };
}

async function openShell(
  size = SIZE,
  options: Partial<SshShellsOptions> = {},
): Promise<{ shell: Shell; socket: Duplex }> {
  const made = await shells(options);
  const shell = await made.shells.open('c1', size, never());
  const [socket] = made.sockets;
  assert.ok(socket);
  return { shell, socket };
}

/** Everything a shell printed so far. */
function printed(shell: Shell): () => string {
  let text = '';
  shell.stream.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return () => text;
}

/** Asserts that all of a shell is gone. */
async function assertGone(shell: Shell, socket: Duplex): Promise<void> {
  await until(() => socket.destroyed && shell.stream.destroyed, { what: 'socket and stream are closed' });
}

test('a shell: its terminal has the asked size and name, and follows a resize', real, async () => {
  const { shell, socket } = await openShell({ cols: 91, rows: 33, term: 'vt220' });
  const text = printed(shell);
  shell.stream.write('echo "$(stty size) $TERM"\n');
  await until(() => text().includes('33 91 vt220'));
  shell.resize(120, 40);
  shell.stream.write('stty size\n');
  await until(() => text().includes('40 120'));
  shell.resize(5000, 0.5);
  shell.stream.write('stty size\n');
  await until(() => text().includes('1 1000'));
  shell.close();
  await assertGone(shell, socket);
});

test('a shell: a terminal name that could not be one is replaced', real, async () => {
  const { shell, socket } = await openShell({ ...SIZE, term: 'x\ny' });
  const text = printed(shell);
  shell.stream.write('echo "<$TERM>"\n');
  await until(() => text().includes('<xterm-256color>'));
  shell.close();
  await assertGone(shell, socket);
});

test('a shell: its exit status is known, its output is whole, and its connection ends', real, async () => {
  const { shell, socket } = await openShell();
  const text = printed(shell);
  shell.stream.write('seq 1 2000; exit 7\n');
  assert.deepEqual(await shell.ended, { code: 7, signal: null });
  assert.match(text(), /1998\r\n1999\r\n2000\r\n/);
  await assertGone(shell, socket);
});

test('a shell: the signal that ended it is known', real, async () => {
  const { shell, socket } = await openShell();
  shell.stream.resume().write('kill -KILL $$\n');
  assert.deepEqual(await shell.ended, { code: null, signal: 'SIGKILL' });
  await assertGone(shell, socket);
});

test('a shell: a flood waits for a slow reader, in bounded memory, and arrives whole', real, async () => {
  const { shell, socket } = await openShell();
  const total = 12 * 1024 * 1024;
  let received = 0;
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  shell.stream.write(`stty -onlcr -echo; printf ready; read _; head -c ${total} /dev/zero; exit\n`);
  let start = '';
  for await (const chunk of shell.stream.iterator({ destroyOnReturn: false })) {
    start += String(chunk);
    if (start.endsWith('ready')) break;
  }
  shell.stream.write('\n');
  // Nobody reads: the server must stop once the window is used up.
  let before = -1;
  const hasStopped = () => {
    const same = received === before;
    before = received;
    return same;
  };
  await until(hasStopped, { everyMs: 300, what: 'the flood has stopped' });
  assert.ok(
    received > 1024 * 1024 && received < 5 * 1024 * 1024,
    `${received} bytes were taken from a socket nobody reads`,
  );
  let bytes = 0;
  for await (const chunk of shell.stream) bytes += chunk.filter((byte: number) => byte === 0).length;
  assert.equal(bytes, total);
  assert.deepEqual(await shell.ended, { code: 0, signal: null });
  await assertGone(shell, socket);
});

test('a shell: what is typed waits for a shell that does not read', real, async () => {
  const { shell, socket } = await openShell();
  const text = printed(shell);
  shell.stream.write('stty raw -echo; printf "read""y"; sleep 1; head -c 8388608 | wc -c; exit\n');
  await until(() => text().includes('ready'));
  const block = Buffer.alloc(65_536, 'x');
  let refused = 0;
  for (let sent = 0; sent < 8_388_608; sent += block.length) {
    if (!shell.stream.write(block)) {
      refused++;
      await new Promise((resolve) => shell.stream.once('drain', resolve));
    }
    assert.ok(shell.stream.writableLength <= 2 * block.length);
  }
  await until(() => text().includes('8388608'));
  assert.ok(refused > 0);
  assert.equal((await shell.ended).code, 0);
  await assertGone(shell, socket);
});

test('closing a shell ends its processes on the other side, and may be repeated', real, async () => {
  const { shell, socket } = await openShell();
  const text = printed(shell);
  shell.stream.write('echo pid=$$; exec sleep 4321\n');
  const pid = await until(() => /pid=(\d+)/.exec(text())?.[1]);
  await until(() => processes().get(pid)?.includes('sleep'));
  shell.close();
  shell.close();
  assert.deepEqual(await shell.ended, { code: null, signal: null });
  await assertGone(shell, socket);
  await until(() => !processes().has(pid), { what: 'the remote process has ended' });
  shell.resize(10, 10);
});

test('destroying the stream of a shell closes it', real, async () => {
  const { shell, socket } = await openShell();
  shell.stream.destroy();
  await shell.ended;
  await assertGone(shell, socket);
});

test('a lost connection: the stream fails with what happened, and writing on is harmless', real, async () => {
  const { shell, socket } = await openShell();
  const failure = new Promise<unknown>((resolve) => shell.stream.once('error', resolve));
  shell.stream.resume();
  socket.destroy();
  assert.equal(((await failure) as { code?: string }).code, 'unavailable');
  shell.stream.on('error', () => {});
  shell.stream.write('x');
  assert.deepEqual(await shell.ended, { code: null, signal: null });
});

test('opening: refused when the key is not accepted', real, async () => {
  const { shells: other, sockets } = await shells({ privateKey: async () => generateKeyPair('other').privateKey });
  await assert.rejects(other.open('c1', SIZE, never()), { name: 'EngineError', code: 'refused' });
  await until(() => sockets[0]?.destroyed);
});

test('opening: unavailable when the platform has no readable key', async () => {
  const made = sshShells({
    privateKey: async () => 'not a key',
    username: 'root',
    log: silent,
    dial: () => assert.fail('must not dial'),
  });
  await assert.rejects(made.open('c1', SIZE, never()), { code: 'unavailable', message: /key of the platform/ });
});

test('opening: the host key is asked about, and a refused one refuses the shell', real, async () => {
  const server = await sshd;
  const asked: string[] = [];
  const { shells: checked } = await shells({
    hostKeys: async (id, key) => {
      asked.push(`${id} ${key.toString('base64')}`);
      return asked.length > 1;
    },
  });
  await assert.rejects(checked.open('c9', SIZE, never()), { code: 'refused', message: /host key/ });
  const shell = await checked.open('c9', SIZE, never());
  shell.close();
  await shell.ended;
  const blob = server?.host.publicKey.split(' ')[1];
  assert.deepEqual(asked, [`c9 ${blob}`, `c9 ${blob}`]);
  const { shells: broken } = await shells({ hostKeys: () => Promise.reject(new Error('storage is down')) });
  await assert.rejects(broken.open('c9', SIZE, never()), { code: 'refused' });
});

test('opening: what dial rejects with reaches the caller, other errors become unavailable', async () => {
  const options = { privateKey: async () => generateKeyPair('x').privateKey, username: 'root', log: silent };
  const unused = await new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
  const nobody = sshShells({ ...options, dial: () => dialLoopback(unused) });
  await assert.rejects(nobody.open('c1', SIZE, never()), {
    name: 'EngineError',
    code: 'no_listener',
    message: 'The image of this container has no SSH server: nothing answers on its port 22.',
  });
  const cause = new Error('socket hang up');
  const broken = sshShells({ ...options, dial: () => Promise.reject(cause) });
  await assert.rejects(broken.open('c1', SIZE, never()), { code: 'unavailable', cause });
});

/** A server that is not SSH: calls `onConnection`, and is gone when the test ends. */
async function fakeServer(
  t: { after(end: () => void): void },
  onConnection: (socket: Socket) => void,
): Promise<SshShellsOptions> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket.on('error', () => {}).on('close', () => open.delete(socket)));
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const privateKey = async () => generateKeyPair('x').privateKey;
  return { dial: () => dialLoopback(port), privateKey, username: 'root', log: silent };
}

test('opening: a connection that ends before SSH begins counts as nobody listening', async (t) => {
  const options = await fakeServer(t, (socket) => socket.end());
  await assert.rejects(sshShells(options).open('c1', SIZE, never()), { code: 'no_listener' });
});

for (const [what, bytes] of [
  ['an impossible packet', 'SSH-2.0-odd\r\n\0\0\0\x08garbage and more garbage'],
  ['an endless packet', 'SSH-2.0-odd\r\n\xff\xff\xff\xff'],
  ['a broken key exchange', 'SSH-2.0-odd\r\n\0\0\0\x0c\x04\x14aaaaaaaaaaaaaaaaaaaa'],
  ['another version', 'SSH-1.0-odd\r\n'],
] as const) {
  test(`opening: a server that sends ${what} is refused`, async (t) => {
    const options = await fakeServer(t, (socket) => socket.end(Buffer.from(bytes, 'latin1')));
    const opening = sshShells(options).open('c1', SIZE, never());
    await assert.rejects(opening, { code: 'refused', message: /cannot be talked to/ });
  });
}

test('opening: a server that announces its leaving is unavailable', async (t) => {
  const disconnect = Buffer.from('SSH-2.0-odd\r\n\0\0\0\x1c\x08\x01\0\0\0\x0b\0\0\0\x04busy\0\0\0\0padding.', 'latin1');
  const options = await fakeServer(t, (socket) => socket.end(disconnect));
  await assert.rejects(sshShells(options).open('c1', SIZE, never()), { code: 'unavailable', message: /was lost/ });
});

test('opening: a server that says nothing is given up after the time allowed', async (t) => {
  const options = await fakeServer(t, (socket) => socket.resume());
  const opening = sshShells({ ...options, loginTimeoutMs: 50 }).open('c1', SIZE, never());
  await assert.rejects(opening, { code: 'unavailable', message: /in time/ });
});

test('opening: endless text before the banner does not fill the memory', async (t) => {
  let sent = 0;
  let over = false;
  const options = await fakeServer(t, (socket) => {
    const chunk = Buffer.alloc(65_536, 'a');
    const pour = () => {
      while (!over && socket.write(chunk)) sent += chunk.length;
    };
    socket.on('drain', pour).on('close', () => {
      over = true;
    });
    pour();
  });
  await assert.rejects(sshShells({ ...options, loginTimeoutMs: 20_000 }).open('c1', SIZE, never()), {
    name: 'EngineError',
  });
  await until(() => over);
  assert.ok(sent < 64 * 1024 * 1024);
});

test('opening can be abandoned: before it, while dialling, and while logging in', async (t) => {
  const silentServer = await fakeServer(t, (socket) => socket.resume());
  const sockets: Duplex[] = [];
  const dial: Engine['dial'] = async (id, port, options) => {
    const socket = await silentServer.dial(id, port, { timeoutMs: options.timeoutMs });
    sockets.push(socket);
    return socket;
  };
  const made = sshShells({ ...silentServer, dial });
  const rejects = { name: 'EngineError', code: 'unavailable', message: /closed before it opened/ };
  await assert.rejects(made.open('c1', SIZE, AbortSignal.abort()), rejects);
  assert.equal(sockets.length, 0);

  const whileDialling = new AbortController();
  const first = made.open('c1', SIZE, whileDialling.signal);
  await Promise.resolve();
  whileDialling.abort();
  await assert.rejects(first, rejects);
  await until(() => sockets.length === 1 && sockets[0]?.destroyed, { what: 'the late connection is ended' });

  const whileLoggingIn = new AbortController();
  const second = made.open('c1', SIZE, whileLoggingIn.signal);
  const socket = await until(() => sockets[1]);
  await until(() => socket.listenerCount('data') > 0, { what: 'SSH has begun' });
  whileLoggingIn.abort(new Error('gone'));
  await assert.rejects(second, (error: Error) => (error.cause as Error).message === 'gone');
  await until(() => socket.destroyed);
});

/** Command lines by process id; zombies are left out. */
function processes(): Map<string, string> {
  const found = new Map<string, string>();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (line !== '') found.set(pid, line);
    } catch {
      // It has ended in between.
    }
  }
  return found;
}
