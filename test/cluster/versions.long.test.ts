/** Real processes of two versions side by side: what one writes the other reads, or is refused before it does harm. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { NODE_FORMAT } from '../../proto/ports/placement.ts';
import { startChronicle } from '../support/cluster/chronicle.ts';
import { skipWithoutCluster, startCluster } from '../support/cluster/cluster.ts';
import { addClients, Load } from '../support/cluster/load.ts';
import { preloaded } from '../support/project.ts';

const skip = skipWithoutCluster();

async function setting(t: TestContext, size: number, started: number) {
  const cluster = await startCluster(t, { size, started: 0 });
  const chronicle = await startChronicle(cluster.db);
  const members = cluster.members.slice(0, started);
  await Promise.all(members.map((member) => member.start()));
  await cluster.settled(members);
  const clients = await addClients(cluster.db, cluster.front, chronicle, 12);
  const load = await Load.over({ front: cluster.front, chronicle, clients, timeoutMs: 60_000, retries: true });
  return { ...cluster, clients, load };
}

test('a rolling restart to a version whose messages and rows have more fields: no request fails, and each version reads the other', {
  skip,
}, async (t) => {
  const { db, members, clients, load, shards, settled } = await setting(t, 3, 3);
  const [one, two, three] = members;
  assert.ok(one && two && three);
  load.start();
  // What its migrations add, while all others are of the version before.
  for (const table of ['users', 'placement_nodes', 'placement_shards', 'settings'])
    await db.run(`alter table ${table} add column of_a_version_to_come text not null default 'as before'`);
  for (const member of [one, two]) {
    assert.equal(await member.stop(), 0, member.log.slice(-2000));
    await member.start(...preloaded('later-version'));
    await settled();
    // Both ways: an entity at the one version, asked for at the other.
    const held = new Set((await shards()).get(three));
    const there = clients.filter(({ shard }) => held.has(shard));
    const elsewhere = clients.filter(({ shard }) => !held.has(shard));
    assert.ok(there.length > 0 && elsewhere.length > 0, `${there.length} of ${clients.length} are at the old one`);
    for (const [some, at] of [
      [there, member],
      [elsewhere, three],
    ] as const)
      for (const client of some) {
        const wrote = await load.write(client, { among: [at], timeoutMs: 60_000 });
        const read = await load.read(client, { among: [at], timeoutMs: 60_000 });
        assert.deepEqual([wrote.outcome, read.outcome], ['ok', 'ok'], load.failures.at(-1));
      }
  }
  assert.equal(await three.stop(), 0);
  await three.start(...preloaded('later-version'));
  await settled();
  await load.stop();
  assert.deepEqual(load.failures, []);
  const verdict = await load.verdict();
  assert.deepEqual(verdict.findings, []);
  assert.ok(verdict.writes > 30 && verdict.reads > 30, `too little was judged: ${JSON.stringify(verdict)}`);
  for (const { log } of members) assert.doesNotMatch(log, /refused a message|unknown_format/);
});

test('a process that speaks another format does not join those that run: it says so and ends, and they go on', {
  skip,
}, async (t) => {
  const { members, clients, load, settled } = await setting(t, 3, 2);
  const [one, two, other] = members;
  assert.ok(one && two && other);
  const next = NODE_FORMAT + 1;
  await assert.rejects(other.start(...preloaded('other-format')), (error) => {
    assert.match(
      String(error),
      new RegExp(`speaks format ${NODE_FORMAT} with other nodes, this version .+ only ${next}`),
    );
    return true;
  });
  await settled([one, two]);
  for (const client of clients)
    for (const member of [one, two]) {
      const { outcome } = await load.write(client, { among: [member], timeoutMs: 60_000 });
      assert.equal(outcome, 'ok', load.failures.at(-1));
    }
  // Nor does ours join theirs.
  await Promise.all([one.stop(), two.stop()]);
  await other.start(...preloaded('other-format'));
  await settled([other]);
  await assert.rejects(
    one.start(),
    new RegExp(`speaks format ${next} with other nodes, this version .+ only ${NODE_FORMAT}`),
  );
  await settled([other]);
  assert.deepEqual((await load.verdict()).findings, []);
});
