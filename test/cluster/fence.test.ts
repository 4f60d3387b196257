/** The fence, from outside: a process that stood still in the middle of a write. And whether the judge would notice if there were none. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { SHARDS, startChronicle } from '../support/cluster/chronicle.ts';
import { skipWithoutCluster, startCluster } from '../support/cluster/cluster.ts';
import type { Verdict } from '../support/cluster/history.ts';
import { addClients, Load } from '../support/cluster/load.ts';
import { preloaded } from '../support/project.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutCluster();

/** A process freezes between the statements of a write and its commit, others take over, and it wakes. */
async function zombie(t: TestContext, nodeArgs: readonly string[]): Promise<{ verdict: Verdict; outcomes: string[] }> {
  const cluster = await startCluster(t, { size: 2, started: 0, nodeArgs });
  const { db, front, members } = cluster;
  const chronicle = await startChronicle(db);
  await Promise.all(members.map((member) => member.start()));
  await cluster.settled();
  const clients = await addClients(db, front, chronicle, 8);
  const load = await Load.over({ front, chronicle, clients, timeoutMs: 60_000 });
  const [a, b] = members;
  assert.ok(a !== undefined && b !== undefined);
  const shards = new Set((await cluster.shards()).get(a));
  const ann = clients.find(({ shard }) => shards.has(shard));
  assert.ok(ann !== undefined, 'one of eight users is at the first process');

  let writing: ReturnType<Load['write']> | undefined;
  await db.tx(async (tx) => {
    await tx.run('select from users where id = $1 for no key update', [ann.userId]);
    writing = load.write(ann, { among: [a] });
    const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and client_addr = $1::inet`;
    await until(() => db.run(waits, [a.address]), { what: 'the write waits for us', timeoutMs: 60_000 });
    await a.freeze();
  });
  // The update is done now; its commit is not.
  await until(async () => (await cluster.shards()).get(b)?.length === SHARDS, {
    what: 'the other process has taken everything',
    timeoutMs: 60_000,
    everyMs: 100,
  });
  const read = await load.read(ann, { among: [b] });
  a.thaw();
  const written = await writing;
  const again = await load.write(ann, { among: [b] });
  return { verdict: await load.verdict(), outcomes: [read, written, again].map((one) => one?.outcome ?? 'none') };
}

test('a process that stood still in the middle of a write is fenced when it wakes: nothing of it is written', {
  skip,
}, async (t) => {
  const { verdict, outcomes } = await zombie(t, []);
  assert.deepEqual(verdict.findings, []);
  assert.deepEqual([outcomes[0], outcomes[2]], ['ok', 'ok']);
});

test('a planted bug is caught: without the fence, that write is taken and the judge says so', { skip }, async (t) => {
  const { verdict } = await zombie(t, preloaded('no-fence'));
  const faults = verdict.findings.map(({ fault }) => fault);
  assert.ok(faults.includes('fenced'), `found: ${JSON.stringify(verdict)}`);
});
