import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { runTrial } from '../support/kubernetes/trial.ts';

// The long form, with 50 kills and 200 operations: npm run soak -- kubernetes
test('rows and cluster agree after the API server and etcd were killed while containers were created, started, stopped and deleted', {
  skip: skipWithoutKubernetes(),
  timeout: 900_000,
}, async (t) => {
  const report = await runTrial(t, { seed: Date.now() % 100_000, operations: 30, kills: 4, settleMs: 400_000 });
  assert.equal(report.kills, 4);
  t.diagnostic(JSON.stringify(report));
});
