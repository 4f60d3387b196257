/** The short form of `npm run soak -- cluster`: three processes under load, one killed, one frozen, one cut off. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';
import { runTrials } from '../support/cluster/trials.ts';
import { skipWithoutPgBouncer } from '../support/database/pgbouncer.ts';

test('a process is killed, frozen, cut off: its entities answer elsewhere, and nothing is lost, doubled or written by who may not', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { cluster, load } = await setting(t, 3);
  load.start();
  // Longer than a lease, shorter than the patience of who waits for this test. The partition is the one from NATS and PostgreSQL.
  const kinds = ['kill', 'stop', 'partition'] as const;
  const trials = await runTrials({ cluster, load, kinds, stopMs: 8000, random: () => 0.3 });
  await load.stop();

  const verdict = await load.verdict();
  assert.deepEqual(verdict.findings, []);
  assert.ok(verdict.writes > 30 && verdict.reads > 30, `too little was judged: ${JSON.stringify(verdict)}`);
  assert.ok(verdict.owners > 1, 'entities had several owners');
  assert.deepEqual(
    trials.map(({ kind, recoveries }) => [kind, recoveries.length > 0]),
    kinds.map((kind) => [kind, true]),
  );
});

// The short form of `npm run soak -- fifty-nodes`.
test('four processes behind PgBouncer: one is killed, one frozen, and nothing is lost, doubled or written by who may not', {
  skip: skipWithoutCluster() || skipWithoutPgBouncer(),
}, async (t) => {
  const { cluster, load } = await setting(t, 4, { poolSize: 8 });
  load.start();
  const kinds = ['kill', 'stop'] as const;
  const trials = await runTrials({ cluster, load, kinds, stopMs: 8000, random: () => 0.3 });
  await load.stop();

  const verdict = await load.verdict();
  assert.deepEqual(verdict.findings, []);
  assert.ok(verdict.writes > 30 && verdict.reads > 30, `too little was judged: ${JSON.stringify(verdict)}`);
  assert.ok(verdict.owners > 1, 'entities had several owners');
  assert.equal(trials.length, 2);
});
