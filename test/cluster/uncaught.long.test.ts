/** What nobody catches, in real processes under load. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startChronicle } from '../support/cluster/chronicle.ts';
import { skipWithoutCluster, startCluster } from '../support/cluster/cluster.ts';
import { addClients, Load } from '../support/cluster/load.ts';
import { preloaded } from '../support/project.ts';
import { until } from '../support/until.ts';

/** Signals at which the file raises it, and what is said then. */
const FAULTS = [
  { signal: 'SIGUSR2', says: /nobody waits for it/ },
  { signal: 'SIGHUP', says: /thrown by a listener/ },
  { signal: 'SIGWINCH', says: /nobody listens/ },
] as const;

test('what nobody catches in a process ends it: another has its entities, nothing acknowledged is lost, and it comes back', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const nodeArgs = preloaded('uncaught');
  const { db, front, members, settled } = await startCluster(t, { size: FAULTS.length + 1, started: 0, nodeArgs });
  const chronicle = await startChronicle(db);
  await Promise.all(members.map((member) => member.start()));
  await settled();
  const clients = await addClients(db, front, chronicle, 8);
  const load = await Load.over({ front, chronicle, clients });
  load.start();

  // Each in a way of its own, all at once.
  const [healthy, ...faulty] = members;
  assert.ok(healthy);
  await Promise.all(
    FAULTS.map(async ({ signal, says }, n) => {
      const member = faulty[n];
      assert.ok(member?.pid !== undefined);
      const ended = member.ended();
      process.kill(member.pid, signal);
      assert.equal(await ended, 1, signal);
      assert.match(member.log, says);
    }),
  );
  for (const client of clients) {
    const write = () => load.write(client, { among: [healthy], timeoutMs: 30_000 });
    await until(async () => (await write()).outcome === 'ok', { what: 'the healthy one answers', timeoutMs: 60_000 });
  }
  await Promise.all(faulty.map((member) => member.start()));
  await settled();
  await load.stop();
  assert.deepEqual((await load.verdict()).findings, []);
});
