/** Deadlines of many connections: told late rather than early, and few of them in a turn of the event loop. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Deadlines, type Timed } from '../../transports/gateway/h1/deadlines.ts';
import { failOnLeaks } from '../kit/leaks.ts';
import { until } from '../kit/until.ts';

failOnLeaks();

test('of many that pass at once few are told in a turn of the loop, each once, and none that went on or left', async (t) => {
  const deadlines = new Deadlines();
  t.after(() => deadlines.close());
  const told: number[] = [];
  const all = Array.from({ length: 200 }, (_, i): Timed => {
    const timed: Timed = { deadline: 0, onDeadline: () => told.push(i) };
    deadlines.add(timed);
    return timed;
  });
  const [, , , gone, kept] = all.slice(-5);
  assert.ok(gone !== undefined && kept !== undefined);
  await until(() => told.length > 0, { everyMs: 1, what: 'the first are told' });
  deadlines.remove(gone);
  kept.deadline = Number.POSITIVE_INFINITY;
  let most = told.length;
  while (told.length < 198) {
    const before = told.length;
    await turn();
    most = Math.max(most, told.length - before);
  }
  assert.ok(most <= 32, `${most} in a turn`);
  await turn();
  assert.equal(new Set(told).size, 198);
  assert.ok(!told.includes(all.indexOf(gone)) && !told.includes(all.indexOf(kept)));
});
