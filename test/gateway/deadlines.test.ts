/** Deadlines of many connections: told late rather than early, and few of them in a turn of the event loop. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Deadlines, type Timed } from '../../transports/wire/deadlines.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

test('of many that pass at once few are told in a turn of the loop, each once, and none that went on or left', async (t) => {
  const deadlines = new Deadlines();
  t.after(() => deadlines.close());
  const told: number[] = [];
  const toldInTurn: number[] = [0];
  /** Begins with the first that is told, before any other turn. */
  const begin = () => {
    const [, , , gone, kept] = all.slice(-5);
    assert.ok(gone !== undefined && kept !== undefined);
    deadlines.remove(gone);
    kept.deadline = Number.POSITIVE_INFINITY;
    const count = () => {
      toldInTurn.push(0);
      if (told.length < 198) setImmediate(count);
    };
    setImmediate(count);
  };
  const all = Array.from({ length: 200 }, (_, i): Timed => {
    const onDeadline = () => {
      if (told.push(i) === 1) begin();
      toldInTurn[toldInTurn.length - 1] = (toldInTurn.at(-1) ?? 0) + 1;
    };
    const timed: Timed = { deadline: 0, onDeadline };
    deadlines.add(timed);
    return timed;
  });
  await until(() => told.length >= 198, { what: 'all others are told' });
  const most = Math.max(...toldInTurn);
  assert.ok(most <= 32, `${most} in a turn`);
  await turn();
  assert.equal(new Set(told).size, 198);
  assert.ok(!told.includes(198) && !told.includes(199));
});
