import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { z } from 'zod';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { request, troupeCommand } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

test('a process whose log is on a full disk goes on, and ends as it should', {
  skip: skipWithoutNats(),
}, async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const nats = await startNats(t);
  const full = openSync('/dev/full', 'w');
  const [program = '', ...args] = troupeCommand(['auth', '--addr', '127.0.0.1:0', '--json']);
  const child = spawn(program, args, {
    env: {
      ...process.env,
      ...{ DATABASE_URL: database.url, NATS_URL: nats.url, LOG_LEVEL: 'debug' },
      JWT_SECRET: 'the shared secret of this test, over 32 bytes',
    },
    stdio: ['ignore', 'pipe', full],
  });
  closeSync(full);
  assert.ok(child.stdout !== null);
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const first = await Promise.race([createInterface({ input: child.stdout })[Symbol.asyncIterator]().next(), ended]);
  assert.ok('value' in first && first.done !== true, 'it comes up');
  const { port } = z.object({ port: z.number() }).parse(JSON.parse(first.value));
  // Refusals are lines of the log, too.
  for (let n = 0; n < 5; n++) {
    const body = { username: 'nobody', password: 'a long enough password' };
    const { status } = await request('POST', `http://127.0.0.1:${port}/api/login`, { body });
    assert.equal(status, 401);
  }
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
});
