/** A step that a power cut interrupts is done or undone: a short form of `npm run soak -- power-cut`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEPLOY_PROGRAMS } from '../support/engine/app-image.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { runPowerCuts } from '../support/power-cut/trial.ts';
import { skipWithout } from '../support/require.ts';

const skip = skipWithoutDocker() || skipWithout(...DEPLOY_PROGRAMS, 'docker-registry');

test('a deployment and a revision are done or undone after a power cut', { skip, timeout: 900_000 }, async (t) => {
  const seed = Date.now() % 1_000_000;
  t.diagnostic(`seed ${seed}`);
  for (const report of await runPowerCuts({ points: 1, seed, steps: ['release', 'revision'] })) {
    t.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.problems, []);
    assert.equal(report.done + report.undone, 1);
  }
});
