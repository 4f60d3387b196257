/** The main process of the base image, with this machine's shell: what it does with a program of the container's owner. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { projectRoot } from '../support/project.ts';
import { findProgram, skipUnless } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const INIT = join(projectRoot, 'deploy/base-image/rootfs/usr/local/sbin/troupe-init');

/** Runs it with paths below a folder, and something that stands still in the place of sshd. */
async function startInit(
  t: TestContext,
  program: string | undefined,
  { mode = 0o755, own = '', command = [] }: { mode?: number; own?: string; command?: readonly string[] } = {},
) {
  const running: ChildProcess[] = [];
  t.after(async () => {
    for (const child of running) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  });
  const folder = await tempDir(t);
  const at = (name: string) => join(folder, name);
  const script = (await readFile(INIT, 'utf8'))
    .replaceAll('/usr/sbin/sshd -D -e', at('sshd'))
    .replaceAll('/root/.troupe/start', at('start'))
    .replaceAll('/usr/local/lib/troupe/start', at('own'))
    .replaceAll('/run/sshd', at('run'))
    .replaceAll('/run/troupe-', `${folder}/troupe-`)
    .replaceAll('/etc/ssh/', `${folder}/`);
  const write = (name: string, text: string, mode: number) => writeFile(at(name), text, { mode });
  await write('init', script, 0o755);
  await write('sshd', '#!/bin/sh\necho sshd\nexec sleep 1000\n', 0o755);
  await write('ssh_host_ed25519_key', 'is there', 0o600);
  if (own !== '') await write('own', `#!/bin/sh\n${own}\n`, 0o755);
  if (program !== undefined) await write('start', `#!/bin/sh\ncd ${folder}\n${program}\n`, mode);
  const init = spawn(at('init'), command, { stdio: ['ignore', 'pipe', 'pipe'] });
  running.push(init);
  let said = '';
  for (const stream of [init.stdout, init.stderr]) stream?.on('data', (chunk: Buffer) => (said += chunk));
  const says = (words: RegExp) => until(() => words.test(said), { what: `it says ${words}` });
  const stop = async () => {
    const exit = once(init, 'exit');
    init.kill('SIGTERM');
    return (await exit)[0];
  };
  /** How the program is, as the container's own programs read it. */
  const state = async () => (await readFile(at('troupe-program'), 'utf8').catch(() => '')).trim();
  return { at, init, says, said: () => said, state, stop, write };
}

describe('the main process of the base image', {
  skip: skipUnless(findProgram('setsid') !== undefined, 'setsid'),
}, () => {
  test('runs the SSH server alone when the owner has no program, and ends with it', async (t) => {
    const { init, says, state } = await startInit(t, undefined);
    await says(/sshd\n/);
    await until(async () => (await state()) === 'none');
    const exit = once(init, 'exit');
    // A command with which it wrote its state down may still be beside the SSH server.
    const children = async () => await readFile(`/proc/${init.pid}/task/${init.pid}/children`, 'utf8');
    const server = await until(async () => /^\s*(\d+)\s*$/.exec(await children())?.[1], { what: 'one child' });
    process.kill(Number(server), 'SIGKILL');
    assert.deepEqual(await exit, [1, null]);
  });

  test('starts the program of its image when the owner has none, and else that of the owner', async (t) => {
    const image = await startInit(t, undefined, { own: 'echo of the image' });
    await image.says(/of the image\n.*own ended with exit code 0/);
    assert.equal(await image.stop(), 0);
    const owner = await startInit(t, 'echo of the owner', { own: 'echo of the image' });
    await owner.says(/of the owner\n.*start ended with exit code 0/);
    assert.equal(await owner.stop(), 0);
    assert.doesNotMatch(owner.said(), /of the image/);
    const broken = await startInit(t, 'true', { mode: 0o644, own: 'echo of the image' });
    await broken.says(/start is not started/);
    assert.doesNotMatch(broken.said(), /of the image/);
  });

  test('runs the command that it is given in the place of both programs', async (t) => {
    const command = ['sh', '-c', 'echo "command: $1"; exec sleep 1000', 'sh', "it's one word"];
    const { init, says, said, state, stop } = await startInit(t, 'echo of the owner', { own: 'echo own', command });
    await says(/command: it's one word\n/);
    await until(async () => /^running \d+ 1$/.test(await state()));
    init.kill('SIGHUP');
    await says(/sh is started again, as asked\ncommand: it's one word\n/);
    assert.equal(await stop(), 0);
    assert.doesNotMatch(said(), /of the owner|own$/m);
    const missing = await startInit(t, 'echo of the owner', { command: ['no-such-program'] });
    await missing.says(/no-such-program ended with exit code 127, and is started again in 1 s/);
    assert.equal(await missing.stop(), 0);
  });

  test('says what is missing when the program is not executable, and lets its owner in', async (t) => {
    const { says } = await startInit(t, 'true', { mode: 0o644 });
    await says(/start is not started: make it executable \(chmod \+x \S+\/start\)/);
    await says(/sshd\n/);
  });

  test('starts a program again that fails, later each time, after it ended what that left', async (t) => {
    const { at, says, stop } = await startInit(t, 'sleep 1000 & echo $! >> left; echo up; exit 3');
    // What stands in for the SSH server says its line when it likes.
    await says(/up\n[\s\S]*start ended with exit code 3, and is started again in 1 s\n[\s\S]*up\n[\s\S]*in 2 s\n/);
    const left = (await readFile(at('left'), 'utf8')).trim().split('\n').map(Number);
    for (const pid of left) await until(() => !existsSync(`/proc/${pid}`), { what: `${pid} has ended` });
    assert.equal(await stop(), 0);
  });

  test('leaves a program alone that ended well, and what that has begun', async (t) => {
    const { at, says, stop } = await startInit(t, 'sleep 1000 & echo $! > left');
    await says(/start ended with exit code 0, and is not started again/);
    const pid = Number(await readFile(at('left'), 'utf8'));
    assert.ok(existsSync(`/proc/${pid}`));
    assert.equal(await stop(), 0);
    await until(() => !existsSync(`/proc/${pid}`));
  });

  test('tells all of the program to end, and waits for it', async (t) => {
    const child = `sh -c 'trap "sleep 0.3; echo child >> ended; exit" TERM; echo ready; while :; do sleep 0.05; done'`;
    const { at, says, stop } = await startInit(t, child);
    await says(/ready\n/);
    assert.equal(await stop(), 0);
    assert.equal(await readFile(at('ended'), 'utf8'), 'child\n');
  });

  test('starts a program that came later when it is told to, and a running one again', async (t) => {
    const { at, init, says, state, stop, write } = await startInit(t, undefined);
    await until(async () => (await state()) === 'none');
    assert.equal(Number(await readFile(at('troupe-init.pid'), 'utf8')), init.pid);
    await write('start', '#!/bin/sh\necho first $$\nsleep 1000\n', 0o755);
    init.kill('SIGHUP');
    await says(/first \d+\n/);
    await until(async () => /^running \d+ 1$/.test(await state()));
    const first = /\d+/.exec(await state())?.[0];
    await write('start', '#!/bin/sh\necho second\nexec sleep 1000\n', 0o755);
    init.kill('SIGHUP');
    await says(/start is started again, as asked\nsecond\n/);
    assert.ok(!existsSync(`/proc/${first}`));
    await until(async () => /^running \d+ 2$/.test(await state()));
    assert.equal(await stop(), 0);
  });

  test('starts a program at once that it would have started later, or no more', async (t) => {
    const { init, says, state, stop, write } = await startInit(t, 'exit 0');
    await says(/is not started again/);
    await until(async () => (await state()) === 'ended 0 1');
    await write('start', '#!/bin/sh\nexit 3\n', 0o755);
    init.kill('SIGHUP');
    await says(/again in 1 s\n[\s\S]*again in 2 s\n[\s\S]*again in 4 s\n/);
    await until(async () => (await state()) === 'ended 3 4');
    await write('start', '#!/bin/sh\necho up\nexec sleep 1000\n', 0o755);
    init.kill('SIGHUP');
    await says(/up\n/);
    await until(async () => /^running \d+ 5$/.test(await state()));
    assert.equal(await stop(), 0);
  });

  test('ends a program that does not end by itself when another takes its place', async (t) => {
    const { init, says, stop, write } = await startInit(t, 'trap "" TERM; echo deaf; while :; do sleep 0.1; done');
    await says(/deaf\n/);
    await write('start', '#!/bin/sh\necho next\nexec sleep 1000\n', 0o755);
    init.kill('SIGHUP');
    await says(/next\n/);
    assert.equal(await stop(), 0);
  });

  test('ends soon whenever it is told, also while it waits to start the program again', async (t) => {
    const { says, stop } = await startInit(t, 'exit 1');
    await says(/in 2 s\n/);
    assert.equal(await stop(), 0);
  });
});
