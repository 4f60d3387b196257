import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  claim,
  exclusively,
  isIdentityAlive,
  isRunning,
  newIdentity,
  readIdentity,
  release,
  runsIn,
} from '../../storage/embedded/processes.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

test('a zombie does not run', { skip: process.platform !== 'linux' }, async (t) => {
  // The child ends once the shell has become sleep, which never asks for it; a shell might.
  const parent = spawn('/bin/sh', ['-c', '(until grep -qx sleep /proc/$$/comm; do :; done) & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => parent.kill('SIGKILL'));
  const [pid] = await once(parent.stdout, 'data');
  await until(() => !isRunning(Number(String(pid))));
  process.kill(Number(String(pid)), 0);
  assert.ok(isRunning(process.pid) && !isRunning(-1) && !isRunning(0) && !isRunning(Number.NaN));
});

test('runsIn knows the working directory', () => {
  assert.ok(runsIn(process.pid, process.cwd()));
  assert.equal(runsIn(process.pid, '/nowhere'), process.platform !== 'linux');
});

test('a claimed file has one holder; that of a dead process is taken over', async (t) => {
  const dir = await tempDir(t);
  const file = join(dir, 'owner');
  const [one, two] = [newIdentity(), newIdentity()];
  assert.equal(await claim(file, one), true);
  assert.equal(await claim(file, two), false);
  await release(file, two);
  assert.equal(await readIdentity(file), one);
  await release(file, one);
  assert.equal(await readIdentity(file), undefined);
  // The number is used again, by us, but the process that wrote it started at another time.
  await writeFile(file, `${process.pid} 1 gone`);
  assert.ok(!isIdentityAlive(`${process.pid} 1 gone`) && isIdentityAlive(one));
  for (let round = 0; round < 30; round++) {
    await writeFile(file, `${process.pid} 1 gone ${round}`);
    const winners = await Promise.all(Array.from({ length: 10 }, () => claim(file, newIdentity())));
    assert.equal(winners.filter((won) => won).length, 1);
  }
  assert.deepEqual(await readdir(dir), ['owner']);
});

test('exclusive work never overlaps, also after one failed', async (t) => {
  const file = join(await tempDir(t), 'lock');
  let inside = 0;
  const work = Array.from({ length: 6 }, (_, i) =>
    exclusively(file, async () => {
      inside += 1;
      assert.equal(inside, 1);
      await new Promise((resolve) => setImmediate(resolve));
      inside -= 1;
      if (i === 2) throw new Error('failed');
    }),
  );
  const results = await Promise.allSettled(work);
  assert.equal(results.filter(({ status }) => status === 'rejected').length, 1);
});
