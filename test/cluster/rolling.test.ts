/** A new version comes: every process is told to end and started again, one after the other, while clients go on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';

test('all processes are restarted one after the other under load: no request fails', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { cluster, load } = await setting(t, 3, { timeoutMs: 60_000, retries: true });
  load.start();
  for (const member of cluster.members) {
    const before = load.operations.length;
    assert.equal(await member.stop(), 0, member.log.slice(-2000));
    await member.start();
    await cluster.settled();
    assert.ok(load.operations.length > before, 'clients went on meanwhile');
  }
  await load.stop();

  const said = cluster.members.map(({ number, log }) => `--- ${number}\n${log.slice(-6000)}`);
  assert.deepEqual(load.failures, [], said.join('\n'));
  const verdict = await load.verdict();
  assert.deepEqual(verdict.findings, []);
  assert.ok(verdict.writes > 30 && verdict.reads > 30, `too little was judged: ${JSON.stringify(verdict)}`);
});
