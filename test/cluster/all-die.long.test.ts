/** All processes end at once, and nobody is left to hand over to. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';
import { until } from '../support/until.ts';

test('all processes die at once and come back: what was acknowledged is there', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 3);
  load.start();
  await until(() => load.operations.filter(({ outcome }) => outcome === 'ok').length > 50, { timeoutMs: 60_000 });
  await Promise.all(cluster.members.map((member) => member.kill()));
  await Promise.all(cluster.members.map((member) => member.start()));
  await cluster.settled();
  await load.stop();
  const replies = await Promise.all(clients.map((client) => load.read(client, { timeoutMs: 30_000 })));
  assert.ok(
    replies.every(({ outcome }) => outcome === 'ok'),
    load.failures.slice(-3).join('\n'),
  );
  assert.deepEqual((await load.verdict()).findings, []);
});
