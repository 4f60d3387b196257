/** Passwords are hashed beside the event loop, by threads that come and go with the work. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HashThreadError, HashThreads } from '../../actors/auth/login/hash-threads.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const parameters = { memoryCost: 64, timeCost: 1, parallelism: 1 };

test('a password matches its own hash and no other, and a malformed hash matches nothing', async () => {
  const threads = new HashThreads({ threads: 1, idleMs: 0 });
  const stored = `${await threads.run({ password: 'right', parameters })}`;
  assert.match(stored, /^\$argon2id\$v=19\$m=64,t=1,p=1\$/);
  const verify = (password: string, hash = stored) => threads.run({ password, stored: hash, parameters });
  assert.deepEqual(await Promise.all([verify('right'), verify('wrong'), verify('right', 'no hash')]), [
    true,
    false,
    false,
  ]);
  await until(() => threads.size === 0, { what: 'a thread without work has ended' });
  assert.equal(await verify('right'), true);
});

test('there are no more threads than asked for, and none without need', async () => {
  const threads = new HashThreads({ threads: 2, idleMs: 0 });
  const one = threads.run({ password: 'a', parameters });
  assert.equal(threads.size, 1);
  const more = Array.from({ length: 8 }, (_, n) => threads.run({ password: `b${n}`, parameters }));
  assert.equal(threads.size, 2);
  assert.equal(new Set(await Promise.all([one, ...more])).size, 9);
});

test('whoever waits for a thread that ends is told, and the next one gets another thread', async () => {
  const body = new URL('data:text/javascript,setTimeout(() => { throw new Error(`it broke`) }, 1)');
  const threads = new HashThreads({ threads: 1, body });
  for (let round = 0; round < 2; round++) {
    await assert.rejects(threads.run({ password: 'a', parameters }), (error: unknown) => {
      assert.ok(error instanceof HashThreadError && error.cause instanceof Error, `${error}`);
      assert.match(error.cause.message, /it broke/);
      return true;
    });
    assert.equal(threads.size, 0);
  }
});
