/** A short form of `npm run soak -- pipes`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runPipeTrial } from '../support/gateway/pipe-trial.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

test('whatever neighbours and origin do, everybody gets their own answer', async (t) => {
  const report = await runPipeTrial(t, { seed: 20_261_121, rounds: 120, clients: 24 });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(report.wrong, []);
  assert.ok(report.most > 8, 'connections were shared');
  assert.ok(report.repeated > 0, 'some were asked for again');
  assert.ok(report.answered > 1500);
});
