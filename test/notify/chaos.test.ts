import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failOnLeaks } from '../kit/leaks.ts';
import { runNotifyChaos } from './chaos.ts';

failOnLeaks();

test('while the service and PostgreSQL are killed, every notification is one row, and every client sees each id once and in order', {
  timeout: 300_000,
}, async () => {
  const report = await runNotifyChaos({ seed: 4, messages: 2000, users: 50, kills: 3, settleMs: 120_000 });
  assert.deepEqual([report.published, report.rows, report.seen], [2000, 2000, 2000]);
  assert.equal(report.kills.service + report.kills.postgres, 3);
  assert.ok(report.connections > 50, 'clients had to come back');
});
