import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { request, troupeCommand } from '../support/cluster/platform.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { preloaded } from '../support/project.ts';

failOnLeaks();

/** The notification service alone, loaded with faults, as a child process that serves. */
async function start(t: TestContext, { url }: TestDatabase, args: readonly string[] = [], stderr?: number) {
  const [program = '', ...command] = troupeCommand(
    ['notify', '--addr', '127.0.0.1:0', '--json', ...args],
    preloaded('uncaught-secrets'),
  );
  const child = spawn(program, command, {
    env: {
      ...process.env,
      DATABASE_URL: url,
      JWT_SECRET: 'the shared secret of this test, over 32 bytes',
      NATS_URL: '',
    },
    stdio: ['ignore', 'pipe', stderr ?? 'pipe'],
  });
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let said = '';
  child.stderr?.on('data', (bytes: Buffer) => (said += bytes));
  assert.ok(child.stdout !== null);
  const first = await Promise.race([createInterface({ input: child.stdout })[Symbol.asyncIterator]().next(), ended]);
  assert.ok('value' in first && first.done !== true, `it comes up: ${said}`);
  const { port } = z.object({ port: z.number() }).parse(JSON.parse(first.value));
  return { child, ended, port, said: () => said };
}

const lineSchema = z.object({
  level: z.string(),
  time: z.iso.datetime(),
  msg: z.string(),
  err: z.object({ message: z.string(), stack: z.string() }),
});

const FAULTS = [
  { signal: 'SIGUSR2', what: 'a rejection that nobody handles', says: /nobody waits for it/ },
  { signal: 'SIGHUP', what: 'an exception of a timer', says: /thrown by a timer/ },
  { signal: 'SIGWINCH', what: 'an error event without a listener', says: /nobody listens/ },
  { signal: 'SIGIO', what: 'something that is no error', says: /just words/ },
] as const;

test('what nobody catches is the last line of the log, with its place and without its secrets, and ends the process', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  for (const { signal, what, says } of FAULTS) {
    await t.test(what, async (t) => {
      const { child, ended, said } = await start(t, database);
      child.kill(signal);
      assert.deepEqual(await ended, [1, null], said());
      const lines = said().trimEnd().split('\n');
      const last = lineSchema.parse(JSON.parse(lines.at(-1) ?? ''));
      assert.equal(last.level, 'error');
      assert.match(last.msg, /nobody caught/);
      assert.match(last.err.message, says);
      assert.match(last.err.stack, says);
      if (signal === 'SIGUSR2') assert.match(last.err.stack, /uncaught-secrets/);
      assert.doesNotMatch(said(), /hunter2/);
      // All of it is lines of JSON: nothing was printed beside the log.
      for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line);
    });
  }
});

test('a process that ships its log, and whose standard error is a full disk, goes on and ends as it should', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const full = openSync('/dev/full', 'w');
  // Nobody is at that address: lines wait, and are dropped in the end.
  const { child, ended, port } = await start(t, database, ['--log-service', '127.0.0.1:1'], full);
  closeSync(full);
  for (let n = 0; n < 3; n++) {
    const { status } = await request('GET', `http://127.0.0.1:${port}/healthz`, {});
    assert.equal(status, 200);
  }
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
});
