import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failOnLeaks } from '../support/leaks.ts';
import { openSsh, skipWithoutSsh } from '../support/ssh/gateway.ts';
import { transfers } from '../support/ssh/transfers.ts';

failOnLeaks();

// Every way with every cipher twice; `npm run soak -- ssh` makes a thousand.
test('30 transfers of some megabytes arrive whole', { skip: skipWithoutSsh, timeout: 900_000 }, async (t) => {
  const setup = await openSsh(t);
  assert.deepEqual(await transfers(setup, 30, 4), []);
});
