/** Threads that hash passwords give way to their process, also where that gives way itself and root is not its user. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { skipUnless } from '../support/require.ts';

const isSource = import.meta.url.endsWith('.ts');
const threads = new URL(`../../actors/auth/login/hash-threads.${isSource ? 'ts' : 'js'}`, import.meta.url);
const program = `
import { readdirSync, readFileSync } from 'node:fs';
const { HashThreads } = await import('${threads.href}');
const parameters = { memoryCost: 64, timeCost: 1, parallelism: 1 };
await new HashThreads({ threads: 1 }).run({ password: 'a', parameters });
const niceOf = (id) => Number(readFileSync('/proc/self/task/' + id + '/stat', 'utf8').split(') ')[1].split(' ')[16]);
console.log(JSON.stringify([niceOf(process.pid), ...readdirSync('/proc/self/task').map(niceOf)]));`;

test('a thread is nicer than its process, however nice that is', {
  skip: skipUnless(process.platform === 'linux', 'priorities of threads are those of Linux'),
}, async () => {
  const { stdout } = await promisify(execFile)('nice', [
    ...['-n', '10', process.execPath],
    ...(isSource ? ['--import', 'tsx'] : []),
    ...['--input-type=module', '--eval', program],
  ]);
  const [own = 0, ...all] = stdout.match(/\d+/g)?.map(Number) ?? [];
  assert.ok(own >= 10, stdout);
  assert.equal(Math.min(...all), own, stdout);
  assert.equal(Math.max(...all), Math.min(own + 5, 19), stdout);
});
