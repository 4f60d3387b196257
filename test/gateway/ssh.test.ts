/** What passes through the gateway's SSH server, with the clients that people have. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import ssh2, { type ClientChannel } from 'ssh2';
import { fingerprintOf } from '../../transports/gateway/ssh/login.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithout } from '../support/require.ts';
import { CONTAINER, finish, openSsh, run, type SshSetup, skipWithoutSsh } from '../support/ssh/gateway.ts';
import { dialLoopback } from '../support/ssh/sshd.ts';
import { freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();
const real = { skip: skipWithoutSsh, timeout: 60_000 };

const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** A server of bytes on loopback, which is inside of the container too. */
async function listening(t: TestContext, onConnection: (socket: Socket) => void): Promise<number> {
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {});
    onConnection(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** All that comes on a connection, after `text` was sent and our half was ended. */
async function exchange(port: number, text: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.end(text);
  let answer = '';
  for await (const chunk of socket) answer += chunk;
  return answer;
}

const isRefused = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED';

/** A login by ssh2's own client, for what OpenSSH only does with a terminal. */
async function login(t: TestContext, setup: SshSetup): Promise<ssh2.Client> {
  const client = new ssh2.Client();
  client.on('error', () => {});
  client.connect({
    host: '127.0.0.1',
    port: setup.port,
    username: CONTAINER,
    privateKey: await readFile(setup.key),
  });
  await once(client, 'ready');
  t.after(() => void client.end());
  return client;
}

const opened = (open: (done: (error: Error | undefined, channel: ClientChannel) => void) => void) =>
  new Promise<ClientChannel>((resolve, reject) => open((error, channel) => (error ? reject(error) : resolve(channel))));

test('exec: output, error output, input and exit code pass', real, async (t) => {
  const setup = await openSsh(t);
  const ended = await setup.ssh([], 'cat; echo wrong >&2; exit 7', 'hello\n');
  assert.deepEqual([ended.code, ended.stdout.toString(), ended.stderr], [7, 'hello\n', 'wrong\n']);
  // The input has ended before the command began.
  const early = await setup.ssh(['-n'], 'cat; echo done');
  assert.deepEqual([early.code, early.stdout.toString()], [0, 'done\n']);
  await until(() => setup.open.size === 0 && setup.gateway.size === 0, { what: 'nothing is left open' });
});

test(
  'as root a key leads to the one container it opens, is told the commands of several, and is unknown otherwise',
  real,
  async (t) => {
    const setup = await openSsh(t);
    const asRoot = async () => {
      const child = setup.startSsh(['-n', '-l', 'root', '127.0.0.1', 'echo inside']);
      return finish(child);
    };
    const inside = await asRoot();
    assert.deepEqual([inside.code, inside.stdout.toString()], [0, 'inside\n'], inside.stderr);
    setup.found = { kind: 'several', text: 'This key opens several containers. Say which:\n  ssh aaa@here' };
    const several = await asRoot();
    assert.equal(several.code, 255);
    assert.match(several.stderr, /Say which:\s+ssh aaa@here/);
    setup.found = { kind: 'none' };
    assert.match((await asRoot()).stderr, /The user name is the id of a container/);
  },
);

test('exec: the command passes byte for byte', real, async (t) => {
  const setup = await openSsh(t);
  const client = await login(t, setup);
  const command = Buffer.concat([Buffer.from("printf %s '"), Buffer.from([0xff, 0xc3, 0x28]), Buffer.from("'")]);
  const channel = await opened((done) => Reflect.apply(client.exec, client, [command, done]));
  const bytes: Buffer[] = [];
  for await (const chunk of channel) bytes.push(chunk);
  assert.deepEqual([...Buffer.concat(bytes)], [0xff, 0xc3, 0x28]);
});

test('exec: a process that a signal ended says so', real, async (t) => {
  const setup = await openSsh(t);
  const client = await login(t, setup);
  const channel = await opened((done) => client.exec('kill -TERM $$', done));
  channel.resume();
  const [code, signal] = await once(channel, 'exit');
  assert.deepEqual([code, signal], [null, 'SIGTERM']);
});

test('signals and what a client asks of its terminal reach the container', real, async (t) => {
  const setup = await openSsh(t);
  // OpenSSH's sshd takes no signals for root.
  const heard: unknown[] = [];
  const server = new ssh2.Server({ hostKeys: [setup.sshd.host.privateKey] }, (container) => {
    container.on('error', () => {});
    container.on('authentication', (context) => context.accept());
    container.on('session', (accept) => {
      const session = accept();
      session.on('signal', (_accept, _reject, info) => heard.push(info));
      session.on('exec', (take, _reject, info) => {
        heard.push(info);
        const channel = take();
        channel.write('ready');
        channel.resume().on('end', () => {
          channel.exit('TERM', true, 'it was told to');
          channel.end();
        });
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  setup.dial = (_id, _port, { signal }) => dialLoopback(port, signal);
  const client = await login(t, setup);
  const channel = await opened((done) => client.exec('wait', done));
  await once(channel, 'data');
  channel.signal('USR1');
  await until(() => heard.length === 2, { what: 'the signal' });
  const exit = once(channel, 'exit');
  channel.resume().end();
  const [code, signal, isCore, text] = await exit;
  assert.deepEqual(heard, [{ command: 'wait' }, { name: 'USR1' }]);
  assert.deepEqual([code, signal, Boolean(isCore), text], [null, 'SIGTERM', true, 'it was told to']);
  client.end();
});

test('a terminal has its name, size and modes, and follows a change of size', real, async (t) => {
  const setup = await openSsh(t);
  const client = await login(t, setup);
  const channel = await opened((done) => client.shell({ term: 'vt220', rows: 33, cols: 91, modes: { ECHO: 0 } }, done));
  let text = '';
  channel.on('data', (chunk: Buffer) => (text += chunk));
  channel.write('echo "<$TERM $(stty size) $(stty -a | grep -o -- "-echo ")>"\n');
  await until(() => text.includes('<vt220 33 91 -echo >'), { what: 'the terminal' });
  channel.setWindow(40, 120, 0, 0);
  channel.write('echo "<$(stty size)>"\n');
  await until(() => text.includes('<40 120>'), { what: 'another size' });
  const closed = once(channel, 'close');
  channel.write('exit 3\n');
  assert.equal((await closed)[0], 3);
});

test('a terminal of ssh -tt', real, async (t) => {
  const setup = await openSsh(t);
  const ended = await setup.ssh(['-tt'], 'tty; read -r line; echo "got $line"', 'text\n');
  assert.match(ended.stdout.toString(), /\/dev\/pts\/\d+\r\n[\s\S]*got text\r\n$/);
});

test('environment variables pass when the container takes them', real, async (t) => {
  const setup = await openSsh(t);
  const ended = await setup.ssh(
    ['-o', 'SetEnv=LC_TEST=äb GIT_PROTOCOL=version=2 NOT_TAKEN=x'],
    'echo "$LC_TEST|$GIT_PROTOCOL|$NOT_TAKEN"',
  );
  assert.equal(ended.stdout.toString(), 'äb|version=2|\n');
});

test('files pass whole by scp (both protocols) and sftp, both ways', real, async (t) => {
  const setup = await openSsh(t);
  const bytes = randomBytes(5_000_000);
  const file = (name: string) => join(setup.dir, name);
  await writeFile(file('source'), bytes);
  const options = [...setup.options, '-P', String(setup.port)];
  for (const protocol of ['-s', '-O']) {
    const up = await run('scp', [
      '-q',
      protocol,
      ...options,
      file('source'),
      `${CONTAINER}@127.0.0.1:${file('there')}`,
    ]);
    assert.equal(up.code, 0, up.stderr);
    const down = await run('scp', [
      '-q',
      protocol,
      ...options,
      `${CONTAINER}@127.0.0.1:${file('there')}`,
      file('back'),
    ]);
    assert.equal(down.code, 0, down.stderr);
    assert.equal(sha(await readFile(file('back'))), sha(bytes));
    await writeFile(file('back'), '');
  }
  const batch = `put ${file('source')} ${file('by-sftp')}\nget ${file('by-sftp')} ${file('back')}\nls ${setup.dir}\n`;
  const sftp = await run('sftp', ['-b', '-', ...options, `${CONTAINER}@127.0.0.1`], { input: batch });
  assert.equal(sftp.code, 0, sftp.stderr);
  assert.equal(sha(await readFile(file('back'))), sha(bytes));
});

test('a folder passes by rsync', { ...real, skip: real.skip || skipWithout('rsync') }, async (t) => {
  const setup = await openSsh(t);
  const [from, to] = [join(setup.dir, 'from'), join(setup.dir, 'to')];
  await mkdir(from);
  for (let n = 0; n < 40; n++) await writeFile(join(from, `file ${n}`), randomBytes(n * 5000));
  const shell = ['ssh', ...setup.options, '-p', String(setup.port)].join(' ');
  for (const [source, target] of [
    [`${from}/`, `${CONTAINER}@127.0.0.1:${to}/`],
    [`${CONTAINER}@127.0.0.1:${to}/`, `${from}-back/`],
  ] as const) {
    const ended = await run('rsync', ['-az', '-e', shell, source, target]);
    assert.equal(ended.code, 0, ended.stderr);
  }
  assert.equal((await run('diff', ['-r', from, `${from}-back`])).code, 0);
});

test('dropbear’s client', { ...real, skip: real.skip || skipWithout('dbclient', 'dropbearconvert') }, async (t) => {
  const setup = await openSsh(t);
  const key = join(setup.dir, 'dropbear');
  assert.equal((await run('dropbearconvert', ['openssh', 'dropbear', setup.key, key])).code, 0);
  const args = ['-y', '-y', '-i', key, '-p', String(setup.port), `${CONTAINER}@127.0.0.1`];
  const ended = await run('dbclient', [...args, 'wc -c; exit 4'], { input: Buffer.alloc(3_000_000) });
  assert.deepEqual([ended.code, ended.stdout.toString().trim()], [4, '3000000'], ended.stderr);
});

test('-L and -W: a connection from the client into the container, each half ended for itself', real, async (t) => {
  const setup = await openSsh(t);
  const inside = await listening(t, async (socket) => {
    let text = '';
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) text += chunk;
    // The client has ended its half long ago.
    socket.end(`heard ${text.length}`);
  });
  const port = await freePort();
  const child = setup.startSsh(['-N', '-L', `${port}:127.0.0.1:${inside}`, `${CONTAINER}@127.0.0.1`]);
  await until(
    () =>
      exchange(port, 'x'.repeat(1_000_000)).then(
        (text) => text === 'heard 1000000',
        () => false,
      ),
    {
      what: '-L',
    },
  );
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => exchange(port, 'y'.repeat(n * 10_000))));
  assert.deepEqual(
    answers,
    Array.from({ length: 20 }, (_, n) => `heard ${n * 10_000}`),
  );
  child.kill();
  const through = await finish(
    setup.startSsh(['-W', `127.0.0.1:${inside}`, `${CONTAINER}@127.0.0.1`]),
    'z'.repeat(70_000),
  );
  assert.equal(through.stdout.toString(), 'heard 70000');
  const nobody = await finish(setup.startSsh(['-W', `127.0.0.1:${await freePort()}`, `${CONTAINER}@127.0.0.1`]));
  assert.match(nobody.stderr, /open failed/);
});

test('-L to a Unix socket inside of the container', real, async (t) => {
  const setup = await openSsh(t);
  const path = join(setup.dir, 'socket');
  const server = createServer((socket) => socket.on('error', () => {}).end('from the socket'));
  server.listen(path);
  await once(server, 'listening');
  t.after(() => void server.close());
  const port = await freePort();
  setup.startSsh(['-N', '-L', `${port}:${path}`, `${CONTAINER}@127.0.0.1`]);
  await until(
    () =>
      exchange(port, '').then(
        (text) => text === 'from the socket',
        () => false,
      ),
    { what: 'the socket' },
  );
});

test(
  '-R: connections to a port or a socket of the container come to the client; a port that is given up is free',
  real,
  async (t) => {
    const setup = await openSsh(t);
    const outside = await listening(t, async (socket) => {
      let text = '';
      for await (const chunk of socket.iterator({ destroyOnReturn: false })) text += chunk;
      socket.end(`outside heard ${text.length}`);
    });
    const port = await freePort();
    const path = join(setup.dir, 'reverse');
    const master = setup.startSsh([
      ...['-N', '-M', '-S', join(setup.dir, 'control'), '-R', `${port}:127.0.0.1:${outside}`],
      ...['-R', `0:127.0.0.1:${outside}`, '-R', `${path}:127.0.0.1:${outside}`, `${CONTAINER}@127.0.0.1`],
    ]);
    let stderr = '';
    master.stderr?.on('data', (chunk: Buffer) => (stderr += chunk));
    await until(
      () =>
        exchange(port, 'a'.repeat(300_000)).then(
          (text) => text === 'outside heard 300000',
          () => false,
        ),
      {
        what: '-R',
      },
    );
    const allocated = Number(/Allocated port (\d+) /.exec(stderr)?.[1]);
    assert.equal(await exchange(allocated, 'b'), 'outside heard 1', stderr);
    const bySocket = connect({ path, allowHalfOpen: true }).end('ccc');
    let text = '';
    for await (const chunk of bySocket) text += chunk;
    assert.equal(text, 'outside heard 3');
    const cancel = await finish(
      setup.startSsh(['-S', join(setup.dir, 'control'), '-O', 'cancel', '-R', `${port}:127.0.0.1:${outside}`, 'x']),
    );
    assert.equal(cancel.code, 0, cancel.stderr);
    // The master does not wait for the answer.
    const isFree = () =>
      exchange(port, '').then(
        () => false,
        (error: unknown) => isRefused(error),
      );
    await until(isFree, { what: 'the port is free' });
  },
);

test('many sessions of one connection, each with the agent of the client', real, async (t) => {
  const setup = await openSsh(t);
  const agent = join(setup.dir, 'agent');
  const agentProcess = spawn('ssh-agent', ['-D', '-a', agent], { stdio: 'ignore' });
  t.after(() => void agentProcess.kill());
  const env = { ...process.env, SSH_AUTH_SOCK: agent };
  await until(async () => (await run('ssh-add', ['-q', setup.key], { env })).code === 0, { what: 'the agent' });
  const control = join(setup.dir, 'control');
  const master = setup.startSsh(['-N', '-M', '-A', '-S', control, `${CONTAINER}@127.0.0.1`], { env });
  await until(async () => (await run('ssh', ['-S', control, '-O', 'check', 'x'])).code === 0, { what: 'the master' });
  const list = await Promise.all(
    Array.from({ length: 8 }, () =>
      finish(setup.startSsh(['-A', '-S', control, `${CONTAINER}@127.0.0.1`, 'ssh-add -l'], { env })),
    ),
  );
  for (const { stdout, stderr } of list) assert.ok(stdout.toString().includes(setup.fingerprint), stderr);
  assert.equal(setup.open.size, 1);
  // Without -A nobody may use it.
  const without = await setup.ssh([], 'ssh-add -l');
  assert.match(without.stderr, /Could not open a connection to your authentication agent/);
  master.kill();
});

test('keys of every type that the platform takes open the container; RSA with SHA-2 only', real, async (t) => {
  const setup = await openSsh(t);
  for (const [type, ...bits] of [
    ['ecdsa', '-b', '256'],
    ['ecdsa', '-b', '384'],
    ['ecdsa', '-b', '521'],
    ['rsa', '-b', '2048'],
  ]) {
    const key = join(setup.dir, `${type}${bits.join('')}`);
    await run('ssh-keygen', ['-q', '-t', type ?? '', ...bits, '-N', '', '-f', key]);
    const blob = Buffer.from((await readFile(`${key}.pub`, 'utf8')).split(' ')[1] ?? '', 'base64');
    setup.owned.add(fingerprintOf(blob));
    const only = setup.options.map((option) => (option === setup.key ? key : option));
    const how = type === 'rsa' ? ['rsa-sha2-256', 'rsa-sha2-512', 'ssh-rsa'] : [undefined];
    for (const algorithm of how) {
      const more = algorithm === undefined ? [] : ['-o', `PubkeyAcceptedAlgorithms=${algorithm}`];
      const ended = await run('ssh', [...only, ...more, '-p', String(setup.port), `${CONTAINER}@127.0.0.1`, 'echo in']);
      assert.equal(
        ended.stdout.toString(),
        algorithm === 'ssh-rsa' ? '' : 'in\n',
        `${type} ${algorithm} ${ended.stderr}`,
      );
    }
  }
});

test('an RSA host key signs with SHA-2 only, and SHA-1 is not offered', real, async (t) => {
  const setup = await openSsh(t);
  const loginWith = (algorithm: string) =>
    run('ssh', [
      ...[
        '-o',
        `HostKeyAlgorithms=${algorithm}`,
        '-o',
        'StrictHostKeyChecking=no',
        '-o',
        'UserKnownHostsFile=/dev/null',
      ],
      ...setup.options,
      ...['-p', String(setup.port), `${CONTAINER}@127.0.0.1`, 'echo in'],
    ]);
  for (const algorithm of ['rsa-sha2-256', 'rsa-sha2-512', 'ssh-ed25519']) {
    const ended = await loginWith(algorithm);
    assert.equal(ended.stdout.toString(), 'in\n', `${algorithm} ${ended.stderr}`);
  }
  const refused = await loginWith('ssh-rsa');
  assert.match(
    refused.stderr,
    /no matching host key type found. Their offer: ssh-ed25519,rsa-sha2-512,rsa-sha2-256\r?\n/,
  );
});

test('every cipher that is offered carries a transfer whole', real, async (t) => {
  const setup = await openSsh(t);
  const bytes = randomBytes(1_500_000);
  const ciphers = ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'chacha20-poly1305@openssh.com'];
  for (const cipher of [...ciphers, 'aes128-ctr', 'aes192-ctr', 'aes256-ctr']) {
    const ended = await setup.ssh(['-c', cipher], 'cat', bytes);
    assert.equal(sha(ended.stdout), sha(bytes), `${cipher} ${ended.stderr}`);
  }
});

test('output and error output at once reach a slow reader whole', real, async (t) => {
  const setup = await openSsh(t);
  const child = setup.startSsh([
    `${CONTAINER}@127.0.0.1`,
    'for n in 1 2 3 4 5 6; do head -c 1000000 /dev/zero; head -c 1000000 /dev/zero | tr "\\0" e >&2; done; exit 6',
  ]);
  let [out, errors] = [0, 0];
  // Each is read in turns: the window of the channel runs empty again and again.
  const streams = [child.stdout, child.stderr];
  child.stdout?.on('data', (chunk: Buffer) => (out += chunk.length));
  child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.length));
  let turn = 0;
  const timer = setInterval(() => {
    for (const [n, stream] of streams.entries()) stream?.[n === turn % 2 ? 'resume' : 'pause']();
    turn++;
  }, 20);
  child.once('exit', () => {
    clearInterval(timer);
    for (const stream of streams) stream?.resume();
  });
  const [code] = await once(child, 'close');
  assert.deepEqual([code, out, errors], [6, 6_000_000, 6_000_000]);
});

test('whoever may not enter is told why, as far as they may know', real, async (t) => {
  const setup = await openSsh(t);
  setup.answer = { kind: 'explain', text: 'Container x is stopped: start it first.', isFinal: true };
  const stopped = await setup.ssh([], 'true');
  assert.match(stopped.stderr, /^Container x is stopped: start it first\.\r?\n/);
  assert.equal(stopped.code, 255);
  setup.answer = { kind: 'explain', text: 'This key was not chosen.', isFinal: false };
  assert.match((await setup.ssh([], 'true')).stderr, /^This key was not chosen\.[\s\S]*Permission denied/);
  setup.answer = { kind: 'unavailable' };
  assert.match((await setup.ssh([], 'true')).stderr, /try again in a moment/);
  setup.answer = { kind: 'enter', userId: 'user00000001' };
  const asWho = await finish(setup.startSsh(['admin@127.0.0.1', 'true']));
  assert.match(asWho.stderr, /The user name is the id of a container[\s\S]*Permission denied/);
  // Without -o BatchMode a stranger is helped, too.
  const batch = setup.options.map((option) => (option === 'BatchMode=yes' ? 'BatchMode=no' : option));
  const help = await run('ssh', [...batch, '-p', String(setup.port), 'zbcdefghijk9@127.0.0.1', 'true']);
  assert.match(help.stderr, /None of the keys that were offered opens a container zbcdefghijk9/);
});

test('a container that cannot be entered is explained: no SSH server, no answer, another key', real, async (t) => {
  const setup = await openSsh(t);
  const nobody = await freePort();
  setup.dial = (_id, _port, { signal }) => dialLoopback(nobody, signal);
  assert.match((await setup.ssh([], 'true')).stderr, /The image of this container has no SSH server/);
  const other = await openSsh(t);
  setup.dial = other.sshd.dial;
  assert.match((await setup.ssh([], 'true')).stderr, /does not accept the key of the platform/);
});

test('a login can be ended from here, and says why', real, async (t) => {
  const setup = await openSsh(t);
  // Ends with its output: without a terminal sshd leaves a command alone.
  const child = setup.startSsh([`${CONTAINER}@127.0.0.1`, 'echo here; while echo; do sleep 0.2; done']);
  let [out, stderr] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => (out += chunk));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk));
  await until(() => out.startsWith('here\n'));
  const [connection] = setup.open;
  assert.deepEqual(
    [connection?.containerId, connection?.fingerprint, connection?.address, connection?.userId],
    [CONTAINER, setup.fingerprint, '127.0.0.1', 'user00000001'],
  );
  connection?.end('SSH is off.');
  const [code] = await once(child, 'close');
  assert.equal(code, 255);
  assert.match(stderr, /SSH is off\./);
  await until(() => setup.open.size === 0, { what: 'the gateway has seen the connection close' });
});

test('too many logins of a user are refused with a sentence', real, async (t) => {
  const setup = await openSsh(t, { limits: { total: 1 } });
  const first = setup.startSsh([`${CONTAINER}@127.0.0.1`, 'echo here; cat']);
  await once(first.stdout ?? first, 'data');
  assert.match((await setup.ssh([], 'true')).stderr, /too many SSH connections/);
  first.stdin?.end();
  await once(first, 'close');
  await until(async () => (await setup.ssh([], 'true')).code === 0, { what: 'there is room again' });
});

test('ssh-audit finds nothing to warn of', { ...real, skip: real.skip || skipWithout('ssh-audit') }, async (t) => {
  const setup = await openSsh(t);
  const { stdout } = await run('ssh-audit', ['--no-colors', '--level=warn', '-p', String(setup.port), '127.0.0.1']);
  // Debian's version is older than strict key exchange, and says so.
  const findings = stdout
    .toString()
    .split('\n')
    .filter((line) => !/^$|^#|kex-strict-s-v00/.test(line));
  assert.deepEqual(findings, []);
  const { stdout: all } = await run('ssh-audit', ['--no-colors', '-p', String(setup.port), '127.0.0.1']);
  assert.match(all.toString(), /curve25519-sha256 /);
});

test('an image whose server does not know a subsystem: sftp ends with a word', real, async (t) => {
  const setup = await openSsh(t);
  const ended = await setup.ssh(['-s'], 'nothing-of-this-name');
  assert.equal(ended.code, 255);
  assert.match(ended.stderr, /The container refused/);
});
