import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutNats } from '../support/bus/nats-server.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { runNotifyChaos } from '../support/notify/chaos.ts';

failOnLeaks();

const size = { seed: 4, messages: 2000, users: 50, settleMs: 120_000 };

test('while the service and PostgreSQL are killed, every notification is one row, and every client sees each id once and in order', {
  timeout: 900_000,
}, async () => {
  const report = await runNotifyChaos({ ...size, kills: 2, nats: false });
  assert.deepEqual([report.published, report.rows, report.seen], [2000, 2000, 2000]);
  assert.deepEqual(report.kills, { service: 1, postgres: 1, nats: 0 });
  assert.ok(report.connections >= 100, `clients had to come back: ${report.connections}`);
});

test('the same on NATS, which is killed too', {
  timeout: 900_000,
  skip: skipWithoutNats(),
}, async () => {
  const report = await runNotifyChaos({ ...size, kills: 3, nats: true });
  assert.deepEqual([report.published, report.rows, report.seen], [2000, 2000, 2000]);
  assert.deepEqual(report.kills, { service: 1, postgres: 1, nats: 1 });
  assert.ok(report.connections >= 100, `clients had to come back: ${report.connections}`);
});
