/** Shells that are kept, where something goes wrong in the container: holders that die or lie, strangers at the socket, no perl. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, stat, symlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import { holderFrame } from '../../lib/holder-script.ts';
import type { Log } from '../../proto/ports/log.ts';
import { HolderFrameReader } from '../../transports/ssh/shell-holder-frames.ts';
import { sshShells } from '../../transports/ssh/shells.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { has, place, SIZE, shareSshd, silent, skip, TIMES } from '../support/ssh/kept-shells.ts';
import { startSshd } from '../support/ssh/sshd.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();
shareSshd();

/** Somebody who listens on a socket file, and says that to whoever says something. */
async function listenAt(path: string, words: Buffer = Buffer.alloc(0)): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => {}).resume();
    socket.once('data', () => socket.write(words));
  });
  server.listen(path);
  await once(server, 'listening');
  return server;
}

async function closed(server: Server): Promise<void> {
  server.close();
  await once(server, 'close');
}

describe('a shell that is kept, among what may go wrong', { skip, timeout: 230_000 }, () => {
  test('ends when its holder is killed', async (t) => {
    const at = await place(t);
    const seen = await at.open();
    const failure = new Promise<unknown>((resolve) => seen.shell.stream.once('error', resolve));
    seen.type('echo parent=$PPID\n');
    await has(seen, /parent=(\d+)/);
    process.kill(Number(/parent=(\d+)/.exec(seen.text())?.[1]), 'SIGKILL');
    assert.match(String(await failure), /connection to the container was lost/);
    const again = await at.open();
    again.type('echo fre""sh\n');
    await has(again, 'fresh');
  });

  test('has its socket where nobody else may enter, and goes nowhere else', async (t) => {
    const at = await place(t);
    const seen = await at.open();
    seen.type('echo he""re\n');
    await has(seen, 'here');
    assert.equal((await stat(at.folder)).mode & 0o777, 0o700);
    assert.equal((await stat(join(at.folder, 'shell1'))).mode & 0o077, 0);
  });

  test('stays when connections to its socket talk nonsense, say nothing or break in the middle', async (t) => {
    const at = await place(t);
    const seen = await at.open();
    seen.type('echo on""e\n');
    await has(seen, 'one');
    const path = join(at.folder, 'shell1');
    for (const words of [
      '',
      'H\0\0\0\0',
      'I\0\0\0\x05exit\n',
      'L\xff\xff\xff\xff',
      'L\0\0\0\x08\0\0',
      '\0'.repeat(100),
    ]) {
      const socket = connect(path);
      socket.on('error', () => {}).on('connect', () => socket.end(Buffer.from(words, 'latin1')));
      await once(socket, 'close');
    }
    const mute = Array.from({ length: 30 }, () =>
      connect(path)
        .on('error', () => {})
        .resume(),
    );
    seen.type('echo tw""o\n');
    await has(seen, 'two');
    for (const socket of mute) socket.destroy();
  });

  for (const [how, words] of [
    ['speaks nonsense', Buffer.alloc(64, 0xff)],
    [
      'sends more than it may',
      Buffer.concat(Array.from({ length: 16 }, () => holderFrame('O', Buffer.alloc(200_000)))),
    ],
  ] as const) {
    test(`is given up when what keeps it ${how}`, async (t) => {
      const at = await place(t);
      await mkdir(at.folder, { mode: 0o700 });
      const liar = await listenAt(join(at.folder, 'shell1'), Buffer.concat([holderFrame('R'), words]));
      const { shell, socket } = await at.open({}, SIZE, false);
      shell.stream.pause();
      const error = await until(() => shell.stream.errored);
      assert.match(String(error), /cannot be understood/);
      await until(() => socket.destroyed);
      await closed(liar);
    });
  }

  test('keeps no more than sixteen in a container: one more is a plain shell', async (t) => {
    const at = await place(t);
    await mkdir(at.folder, { mode: 0o700 });
    const others = await Promise.all(Array.from({ length: 16 }, (_, n) => listenAt(join(at.folder, `other${n}`))));
    await assert.rejects(at.open(), /the shell is kept/);
    for (const other of others) await closed(other);
    await at.open();
  });

  test('finds its place again after a container that was killed, whatever lies there', async (t) => {
    const at = await place(t);
    await mkdir(at.folder, { mode: 0o700 });
    for (const name of ['shell1', 'old']) {
      const left = spawnSync('perl', [
        '-MSocket',
        '-e',
        'socket(S,PF_UNIX,SOCK_STREAM,0);bind(S,pack_sockaddr_un(shift))',
        join(at.folder, name),
      ]);
      assert.equal(left.status, 0);
    }
    const seen = await at.open();
    seen.type('echo he""re\n');
    await has(seen, 'here');
    assert.deepEqual(await at.holders(), ['shell1']);
  });
});

test('frames are the same however their bytes are cut', () => {
  const bytes = Buffer.concat([
    holderFrame('R'),
    holderFrame('O', Buffer.from('output')),
    holderFrame('X', Buffer.of(1, 0)),
    holderFrame('O'),
  ]);
  for (let size = 1; size <= bytes.length; size++) {
    const read: string[] = [];
    const output: string[] = [];
    const reader = new HolderFrameReader((letter, data) => {
      if (letter === 'O') output.push(data.toString());
      else read.push(letter + data.toString('hex'));
    });
    for (let at = 0; at < bytes.length; at += size) assert.equal(reader.push(bytes.subarray(at, at + size)), true);
    assert.deepEqual([read, output.join('')], [['R', 'X0100'], 'output']);
  }
});

describe('where a shell cannot be kept it is a plain one', { skip, timeout: 60_000 }, () => {
  const plain = async (t: TestContext, folder: string, config: readonly string[] = []) => {
    const server = await startSshd(t, config);
    const notes: string[] = [];
    const log: Log = { ...silent, debug: (fields) => void notes.push(inspect(fields)), child: () => log };
    const options = {
      dial: server.dial,
      privateKey: async () => server.user.privateKey,
      username: server.username,
      log,
    };
    const never = new AbortController().signal;
    const shell = await sshShells({ ...options, keepingFolder: folder }).open('c1', SIZE, never, {
      name: 'a',
      ...TIMES,
    });
    let text = '';
    shell.stream.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
    });
    assert.equal(shell.kept, undefined);
    shell.stream.write('echo he""re\n');
    await until(() => text.includes('here'));
    shell.stream.write('exit 3\n');
    assert.deepEqual(await shell.ended, { code: 3, signal: null });
    return notes.join();
  };

  test('without perl', async (t) => {
    const note = await plain(t, join(await tempDir(t), 'holders'), ['SetEnv PATH=/nowhere']);
    assert.match(note, /perl/);
  });

  test('in a folder that others may enter, or that is none', async (t) => {
    const dir = await tempDir(t);
    const open = join(dir, 'open');
    await mkdir(open);
    await chmod(open, 0o755);
    assert.match(await plain(t, open), /no folder/);
    await symlink(dir, join(dir, 'link'));
    assert.match(await plain(t, join(dir, 'link')), /no folder/);
    assert.match(await plain(t, '/proc/holders'), /no folder/);
  });

  test('where commands are not what was asked for', async (t) => {
    const note = await plain(t, join(await tempDir(t), 'h'), [
      'ForceCommand if [ -t 0 ]; then exec sh -l; fi; echo no',
    ]);
    assert.match(note, /it ended/);
  });
});
