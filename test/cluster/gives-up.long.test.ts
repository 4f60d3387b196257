/** A service that fails whenever it is started, in a process beside one that is well. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SHARDS } from '../support/cluster/chronicle.ts';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';
import { preloaded } from '../support/project.ts';
import { until } from '../support/until.ts';

test('a service whose parts crash whenever they start gives its entities away, says so, and ends its process with an error', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 2, { nodeArgs: preloaded('crash-loop') });
  const [well, broken] = cluster.members;
  assert.ok(well && broken?.pid !== undefined);
  const ended = broken.ended();
  process.kill(broken.pid, 'SIGUSR2');
  const patience = { timeoutMs: 60_000, everyMs: 50 };
  // Between its starts it is down for a second at least.
  const isDown = async () => (await fetch(`${broken.url}/healthz`)).status === 503;
  await until(isDown, { ...patience, what: 'it says that it is down' });
  const hasAll = async () => (await cluster.shards()).get(well)?.length === SHARDS;
  await until(hasAll, { ...patience, what: 'the other has all entities' });
  assert.notEqual(broken.pid, undefined, 'it still runs');
  // From the other, and from the process itself, for which all entities are elsewhere.
  for (const member of [well, broken]) {
    for (const client of clients) {
      const { outcome } = await load.write(client, { among: [member], timeoutMs: 30_000 });
      assert.equal(outcome, 'ok', load.failures.join('\n'));
    }
  }
  assert.equal(await ended, 1);
  assert.match(broken.log, /a service cannot be kept running: the process ends/);
  assert.match(broken.log, /troupe: The auth service fails whenever it is restarted/);
  await broken.start();
  await cluster.settled();
});
