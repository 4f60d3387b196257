/** Processes that are cut off, each from something else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SHARDS } from '../support/cluster/chronicle.ts';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';
import { until } from '../support/until.ts';

test('one process hears nothing of NATS, one nothing of PostgreSQL, one of neither: the fourth has everything; then all share again', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 4);
  const { members, broker, database } = cluster;
  const [one, two, three, four] = members;
  assert.ok(one && two && three && four);
  load.start();
  await one.cut({ ...broker, direction: 'in' });
  await two.cut({ ...database, direction: 'in' });
  await three.cut({ ...broker, direction: 'both' }, { ...database, direction: 'both' });
  await until(async () => (await cluster.shards()).get(four)?.length === SHARDS, {
    what: 'the process that is well has taken everything',
    timeoutMs: 60_000,
    everyMs: 100,
  });
  for (const client of clients) {
    const { outcome } = await load.write(client, { among: [four], timeoutMs: 30_000 });
    assert.equal(outcome, 'ok');
  }
  await Promise.all([one, two, three].map((member) => member.heal()));
  await cluster.settled();
  await load.stop();
  for (const member of members) {
    const replies = await Promise.all(
      clients.map((client) => load.read(client, { among: [member], timeoutMs: 30_000 })),
    );
    assert.ok(
      replies.every(({ outcome }) => outcome === 'ok'),
      load.failures.slice(-3).join('\n'),
    );
  }
  assert.deepEqual((await load.verdict()).findings, []);
});
