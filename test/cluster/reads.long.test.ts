/** Reads while the process that owns what they read dies, or stands still. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';
import { pause } from '../support/pause.ts';

const READS = 500;
/** Between two reads, ms: they go on for longer than a take-over takes. */
const PACE_MS = 25;

test('of 500 reads none fails while the owner of what they read stands still, and none when it is killed', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 2);
  const [asked, owner] = cluster.members;
  assert.ok(asked && owner);
  const isOwned = async () => {
    const shards = (await cluster.shards()).get(owner) ?? [];
    return clients.filter(({ shard }) => shards.includes(shard)).length;
  };
  for (const fail of [() => owner.freeze(), () => owner.kill()]) {
    await cluster.settled();
    assert.ok((await isOwned()) > 0, 'somebody is at the other process');
    const under: ReturnType<typeof load.read>[] = [];
    for (let n = 0; n < READS; n++) {
      if (n === READS / 10) await fail();
      const client = clients[n % clients.length];
      assert.ok(client);
      under.push(load.read(client, { among: [asked], timeoutMs: 30_000 }));
      await pause(PACE_MS, 'pace');
    }
    const failed = (await Promise.all(under)).filter(({ outcome }) => outcome !== 'ok');
    assert.deepEqual([failed.length, load.failures.slice(0, 3)], [0, []]);
    owner.thaw();
  }
});
