/** Short forms of the trials that `npm run soak` runs longer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutNats } from '../support/bus/nats-server.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { runAway } from '../support/notify/database-outage.ts';
import { runReconnect } from '../support/notify/mass-reconnect.ts';
import { tidily } from '../support/temp.ts';

failOnLeaks();

const skip = skipWithoutNats();

test('while the database is away nothing is lost, and no more is taken than is kept', {
  skip,
  timeout: 900_000,
}, async () => {
  const report = await tidily((t) => runAway(t, { users: 100, each: 60, awayMs: 3000, settleMs: 90_000 }));
  assert.deepEqual([report.rows, report.seen], [6100, 6100]);
});

test('clients that all come back at once after a restart see each id once and in order', {
  skip,
  timeout: 900_000,
}, async () => {
  const report = await tidily((t) => runReconnect(t, { users: 40, perUser: 5, rounds: 1, settleMs: 90_000 }));
  assert.equal(report.seen, 200);
});
