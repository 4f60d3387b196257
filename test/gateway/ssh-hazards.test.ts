/** What hostile and broken clients and containers do to the gateway's SSH server, and that others do not notice. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import ssh2, { type ClientChannel } from 'ssh2';
import { failOnLeaks } from '../support/leaks.ts';
import { CONTAINER, FOREIGN, finish, openSsh, run, type SshSetup, skipWithoutSsh } from '../support/ssh/gateway.ts';
import { until } from '../support/until.ts';

failOnLeaks();
const real = { skip: skipWithoutSsh, timeout: 60_000 };

/** A connection of bytes; `gone` once the gateway ended it. */
async function raw(
  t: TestContext,
  setup: SshSetup,
  from = '127.0.0.1',
): Promise<{ socket: Socket; text: () => string; gone: () => boolean }> {
  const socket = connect({ port: setup.port, host: '127.0.0.1', localAddress: from });
  let text = '';
  let isGone = false;
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1'))).on('error', () => {});
  socket.on('close', () => {
    isGone = true;
  });
  t.after(() => void socket.destroy());
  await once(socket, 'connect');
  return { socket, text: () => text, gone: () => isGone };
}

const works = async (setup: SshSetup) => assert.equal((await setup.ssh([], 'echo fine')).stdout.toString(), 'fine\n');

/** ssh2's client, which does as it is told. */
async function login(t: TestContext, setup: SshSetup): Promise<ssh2.Client> {
  const client = new ssh2.Client();
  client.on('error', () => {});
  client.connect({ host: '127.0.0.1', port: setup.port, username: CONTAINER, privateKey: await readFile(setup.key) });
  await once(client, 'ready');
  t.after(() => void client.destroy());
  return client;
}

/** The socket of ssh2's client. */
function socketOf(client: ssh2.Client): Socket {
  const socket: unknown = '_sock' in client ? client._sock : undefined;
  assert.ok(socket !== null && typeof socket === 'object' && 'destroy' in socket);
  return Object.assign(socket) as Socket;
}

const exec = (client: ssh2.Client, command: string) =>
  new Promise<ClientChannel>((resolve, reject) =>
    client.exec(command, (error, channel) => (error ? reject(error) : resolve(channel))),
  );

test('a flood without a newline, or of lines, ends before it is kept', real, async (t) => {
  const setup = await openSsh(t);
  for (const bytes of [
    'A',
    'SSH-2.0-'.padEnd(100_000, 'x'),
    'hello\r\n'.repeat(10_000),
    '\n',
    'GET / HTTP/1.1\r\n\r\n',
  ]) {
    const client = await raw(t, setup);
    client.socket.write(bytes);
    await until(client.gone, { what: `the end of ${bytes.slice(0, 10)}` });
  }
  await works(setup);
});

test('an identification that is too long, not ASCII or of another version is refused', real, async (t) => {
  const setup = await openSsh(t);
  for (const line of [
    `SSH-2.0-${'x'.repeat(250)}`,
    'SSH-2.0-caf\xe9',
    'SSH-2.0-\0',
    'SSH-1.5-old',
    'SSH-2.0-',
    'ssh-2.0-x',
  ]) {
    const client = await raw(t, setup);
    client.socket.write(`${line}\r\n`, 'latin1');
    await until(client.gone, { what: `the end of ${line.slice(0, 20)}` });
    assert.match(client.text(), /Invalid SSH identification string/);
  }
  const longest = await raw(t, setup);
  longest.socket.write(`SSH-2.0-${'x'.repeat(245)}\r\n`);
  await until(() => longest.text().length > 100, { what: 'our KEXINIT' });
});

test('ten thousand connections that say nothing keep nobody out', { ...real, timeout: 900_000 }, async (t) => {
  const setup = await openSsh(t, { limits: { waiting: 200, waitingPerAddress: 50 } });
  const open = new Set<Socket>();
  for (let n = 0; n < 10_000; n += 100) {
    await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        const socket = connect({
          port: setup.port,
          host: '127.0.0.1',
          localAddress: `127.0.${1 + (n % 200)}.${1 + i}`,
        });
        socket.on('error', () => {}).on('close', () => open.delete(socket));
        open.add(socket);
        await once(socket, 'connect').catch(() => {});
      }),
    );
    if (n === 5000) await works(setup);
  }
  const leave = () => {
    for (const socket of open) socket.destroy();
  };
  t.after(leave);
  await until(() => setup.gateway.size <= 200, { what: 'only the last are there' });
  await works(setup);
  leave();
  await until(() => setup.gateway.size === 0, { what: 'nobody is there' });
  // One address alone has no more than its share.
  const mine = await Promise.all(Array.from({ length: 60 }, () => raw(t, setup)));
  await until(() => mine.filter(({ gone }) => gone()).length >= 10, { what: 'some are refused' });
  assert.ok(mine.some(({ text }) => /Too many logins at once/.test(text())));
});

test('a packet of 2^31 bytes, or a KEXINIT of 256 KiB, ends the connection', real, async (t) => {
  const setup = await openSsh(t);
  for (const length of [2 ** 31, 256 * 1024, 0, 3, 0xffffffff]) {
    const client = await raw(t, setup);
    const head = Buffer.alloc(6);
    head.writeUInt32BE(length);
    head[5] = 20;
    client.socket.write(Buffer.concat([Buffer.from('SSH-2.0-x\r\n'), head, Buffer.alloc(70_000)]));
    await until(client.gone, { what: `the end at ${length}` });
  }
  await works(setup);
});

test('a packet whose MAC is wrong ends the connection', real, async (t) => {
  const setup = await openSsh(t);
  for (const cipher of ['aes128-gcm@openssh.com', 'aes128-ctr', 'chacha20-poly1305@openssh.com'] as const) {
    const client = new ssh2.Client();
    client.on('error', () => {});
    client.connect({
      ...{ host: '127.0.0.1', port: setup.port, username: CONTAINER, privateKey: await readFile(setup.key) },
      algorithms: { cipher: [cipher] },
    });
    await once(client, 'ready');
    const closed = new Promise<void>((resolve) => void client.on('close', () => resolve()));
    socketOf(client).write(Buffer.alloc(64, 7));
    await closed;
  }
  await until(() => setup.open.size === 0);
  await works(setup);
});

test('key exchange is strict: a packet put in before NEWKEYS ends the connection', real, async (t) => {
  const setup = await openSsh(t);
  const verbose = await setup.ssh(['-vvv'], 'true');
  assert.match(verbose.stderr, /will use strict KEX ordering/);
  const client = await raw(t, setup);
  // An IGNORE before the KEXINIT that says strict.
  client.socket.write(
    Buffer.concat([Buffer.from('SSH-2.0-x\r\n'), packet(Buffer.from([2, 0, 0, 0, 0])), packet(kexinit())]),
  );
  await until(client.gone, { what: 'the end' });
});

/** A packet without encryption (RFC 4253 section 6). */
function packet(payload: Buffer): Buffer {
  const padding = 16 - ((payload.length + 5) % 8);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(1 + payload.length + padding);
  head[4] = padding;
  return Buffer.concat([head, payload, Buffer.alloc(padding)]);
}

function kexinit(): Buffer {
  const lists = [
    ...['curve25519-sha256,kex-strict-c-v00@openssh.com', 'ssh-ed25519', 'aes128-ctr', 'aes128-ctr'],
    ...['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-256-etm@openssh.com', 'none', 'none', '', ''],
  ].map((list) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(list.length);
    return Buffer.concat([length, Buffer.from(list)]);
  });
  return Buffer.concat([Buffer.of(20), Buffer.alloc(16), ...lists, Buffer.alloc(5)]);
}

test('a user name that is no id, or another tenant’s, learns nothing and reaches nobody', {
  ...real,
  timeout: 900_000,
}, async (t) => {
  const setup = await openSsh(t, { limits: { mistakes: 10_000 } });
  const names = [
    '../../etc/passwd',
    'a;reboot',
    '$(id)',
    '`id`',
    '-oProxyCommand=x',
    'a\'b"c',
    'x'.repeat(30_000),
    'Root',
    'ABCDEFGHIJK1',
    `${CONTAINER}\n`,
  ];
  for (const username of [...names, 'a\0b', `${CONTAINER}\0`]) {
    const client = new ssh2.Client();
    const failed = once(client, 'error').catch((error: unknown) => [error]);
    client.connect({ host: '127.0.0.1', port: setup.port, username, privateKey: await readFile(setup.key) });
    await failed;
    client.destroy();
  }
  assert.equal(setup.questions.length, 0);
  const [foreign, missing] = await Promise.all(
    [FOREIGN, 'ybcdefghijk8'].map((name) => finish(setup.startSsh([`${name}@127.0.0.1`, 'true']))),
  );
  assert.equal(foreign?.stderr.replaceAll(FOREIGN, 'X'), missing?.stderr.replaceAll('ybcdefghijk8', 'X'));
  assert.equal(setup.dialled.length, 0);
});

test('guessing is slowed and then refused, address by address; an honest user is not hindered', real, async (t) => {
  const setup = await openSsh(t, { limits: { mistakes: 12, forgiveMs: 100_000 } });
  const guess = (from: string) =>
    new Promise<string>((resolve) => {
      const client = new ssh2.Client();
      client.on('error', (error) => resolve(error.message)).on('close', () => resolve('closed'));
      client.connect({
        ...{ host: '127.0.0.1', port: setup.port, localAddress: from, username: CONTAINER, password: 'guess' },
        ...{ tryKeyboard: true, readyTimeout: 50_000 },
      });
    });
  // A hundred addresses, each some guesses.
  const guesses = Array.from({ length: 100 }, (_, n) => guess(`127.1.0.${1 + n}`));
  await works(setup);
  for (const answer of await Promise.all(guesses)) assert.match(answer, /authentication methods failed|closed/);
  // One that goes on is shut out.
  const mean = '127.2.0.1';
  for (let n = 0; n < 14; n++) await guess(mean);
  const refused = await raw(t, setup, mean);
  await until(refused.gone, { what: 'it is refused' });
  assert.match(refused.text(), /Too many failed logins from your address/);
  assert.equal(
    setup.questions.every(({ fingerprint }) => fingerprint === setup.fingerprint),
    true,
  );
  await works(setup);
});

test('what is not granted is refused, and the session goes on', real, async (t) => {
  const setup = await openSsh(t, {
    sshd: ['AllowTcpForwarding no', 'AllowAgentForwarding no', 'AllowStreamLocalForwarding no'],
  });
  const agent = { ...process.env, DISPLAY: ':0' };
  const ended = await finish(
    setup.startSsh(['-X', '-A', `${CONTAINER}@127.0.0.1`, 'echo "<$DISPLAY$SSH_AUTH_SOCK$LD_PRELOAD>"'], {
      env: agent,
    }),
  );
  assert.equal(ended.stdout.toString(), '<>\n', ended.stderr);
  const forward = await finish(setup.startSsh(['-W', '127.0.0.1:1', `${CONTAINER}@127.0.0.1`]));
  assert.match(forward.stderr, /open failed/);
  const reverse = await finish(
    setup.startSsh(['-o', 'ExitOnForwardFailure=yes', '-R', '0:127.0.0.1:1', `${CONTAINER}@127.0.0.1`, 'true']),
  );
  assert.match(reverse.stderr, /remote port forwarding failed/);
  const client = await login(t, setup);
  const channel = await new Promise<ClientChannel>((resolve, reject) =>
    client.exec(
      'env | grep -c ^V; true',
      { env: Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`V${n}`, 'x'.repeat(n)])) },
      (error, opened) => (error ? reject(error) : resolve(opened)),
    ),
  );
  let text = '';
  for await (const chunk of channel) text += chunk;
  assert.equal(text, '0\n');
});

test('thousands of channels: as many as are allowed open, and the others are refused', real, async (t) => {
  const setup = await openSsh(t, { limits: { channels: 20 } });
  const client = await login(t, setup);
  const results = await Promise.allSettled(Array.from({ length: 2000 }, () => exec(client, 'cat')));
  const open = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  assert.equal(open.length, 20);
  for (const channel of open) {
    channel.resume().end();
    await once(channel, 'close');
  }
  // Sessions that are opened and closed without anything in them leave nothing.
  const again = await exec(client, 'echo again');
  let text = '';
  for await (const chunk of again) text += chunk;
  assert.equal(text, 'again\n');
});

test(
  'a client that never reads holds up nobody else, in bounded memory, and is ended when memory is short',
  real,
  async (t) => {
    const setup = await openSsh(t, { limits: { waitingBytes: 5_000_000, sweepMs: 100 } });
    const lazy = await login(t, setup);
    const one = await exec(lazy, 'cat /dev/zero');
    await once(one, 'readable');
    const socket = setup.dialled[0];
    assert.ok(socket !== undefined && 'bytesRead' in socket);
    let before = -1;
    await until(
      () => {
        const same = before === Number(socket.bytesRead);
        before = Number(socket.bytesRead);
        return same;
      },
      { what: 'the flood stands still', everyMs: 100 },
    );
    assert.ok(before < 30_000_000);
    await works(setup);
    const channels = [one];
    const closed = new Promise<void>((resolve) => void lazy.on('close', () => resolve()));
    for (let n = 0; n < 6; n++) channels.push(await exec(lazy, 'cat /dev/zero').catch(() => one));
    await closed;
    await works(setup);
  },
);

test(
  'a process that exits during a transfer ends it with its code, and what it said before arrives',
  real,
  async (t) => {
    const setup = await openSsh(t);
    const ended = await setup.ssh(
      [],
      'head -c 1000000 >/dev/null; head -c 3000000 /dev/zero; exit 9',
      Buffer.alloc(20_000_000),
    );
    assert.deepEqual([ended.code, ended.stdout.length], [9, 3_000_000]);
    const child = setup.startSsh([`${CONTAINER}@127.0.0.1`, 'cat /dev/zero & echo $!; wait']);
    await once(child.stdout ?? child, 'data');
    child.kill('SIGKILL');
    await until(() => setup.open.size === 0 && setup.dialled.every(({ destroyed }) => destroyed), {
      what: 'all is closed',
    });
  },
);

test('a container that goes in the middle of a session ends it, and says so', real, async (t) => {
  const setup = await openSsh(t);
  for (const how of ['reset', 'end'] as const) {
    const child = setup.startSsh(['-N', '-M', '-S', join(setup.dir, how), `${CONTAINER}@127.0.0.1`]);
    await until(async () => (await run('ssh', ['-S', join(setup.dir, how), '-O', 'check', 'x'])).code === 0, {
      what: 'a login',
    });
    // Ends with its output: without a terminal sshd leaves a command alone.
    const command = 'echo before; while echo; do sleep 0.2; done';
    const session = finish(setup.startSsh(['-S', join(setup.dir, how), 'x', command]));
    await until(() => setup.dialled.length > 0);
    const ended = finish(child);
    const socket = setup.dialled.at(-1);
    if (how === 'reset') socket?.destroy();
    else socket?.end();
    assert.match((await ended).stderr, /The connection to the container has ended/);
    await session;
  }
  await until(() => setup.open.size === 0 && setup.gateway.size === 0, { what: 'nothing is left' });
  await works(setup);
});

test('keys are exchanged anew after so many bytes, from either side, in the middle of transfers', real, async (t) => {
  const setup = await openSsh(t, { limits: { rekeyBytes: 1_000_000, sweepMs: 20 } });
  const bytes = 30_000_000;
  const ours = await setup.ssh(['-v'], `head -c ${bytes} /dev/zero`);
  assert.equal(ours.stdout.length, bytes);
  assert.ok((ours.stderr.match(/SSH2_MSG_NEWKEYS received/g) ?? []).length >= 2, 'the gateway asked for new keys');
  const theirs = await setup.ssh(['-v', '-o', 'RekeyLimit=1M'], 'cat', Buffer.alloc(12_000_000));
  assert.equal(theirs.stdout.length, 12_000_000);
  assert.ok((theirs.stderr.match(/SSH2_MSG_NEWKEYS received/g) ?? []).length >= 5, 'the client asked for new keys');
});

test('a login that does not come about in time is ended', real, async (t) => {
  const setup = await openSsh(t, { limits: { loginMs: 300 } });
  const silent = await raw(t, setup);
  const slow = await raw(t, setup);
  slow.socket.write('SSH-2.0-x\r\n');
  await until(() => silent.gone() && slow.gone(), { what: 'both are ended' });
});

test('a client that asks for keys and never exchanges them is ended', real, async (t) => {
  const setup = await openSsh(t, { limits: { rekeyMs: 200, sweepMs: 50 } });
  const client = await login(t, setup);
  await exec(client, 'cat /dev/zero');
  const closed = new Promise<void>((resolve) => void client.on('close', () => resolve()));
  const socket = socketOf(client);
  // From here on nothing that it says arrives.
  const protocol: unknown = '_protocol' in client ? client._protocol : undefined;
  assert.ok(
    typeof protocol === 'object' && protocol !== null && 'rekey' in protocol && typeof protocol.rekey === 'function',
  );
  protocol.rekey();
  socket.write = () => true;
  await closed;
});
