import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failOnLeaks } from '../kit/leaks.ts';
import { openSsh, skipWithoutSsh } from './ssh-kit.ts';

failOnLeaks();
const real = { skip: skipWithoutSsh, timeout: 60_000 };

test('exec: output, error output, input and exit code pass', real, async (t) => {
  const world = await openSsh(t);
  const ended = await world.ssh([], 'cat; echo wrong >&2; exit 7', 'hello\n');
  assert.deepEqual([ended.code, ended.stdout.toString(), ended.stderr], [7, 'hello\n', 'wrong\n']);
});
