/** The kit itself: what it promises to the tests that stand on it. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { NoAnswer } from './balancing-client.ts';
import { skipWithoutCluster, startCluster } from './cluster.ts';

test('a cluster of processes is cut, frozen, killed and gone without a trace', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const ends: (() => Promise<void> | void)[] = [];
  const cluster = await startCluster({ after: (end) => void ends.unshift(end) }, { size: 2 });
  let ended = false;
  const end = async () => {
    if (!ended) for (const one of ends) await one();
    ended = true;
  };
  t.after(end);
  await cluster.settled();
  const [a, b] = cluster.members;
  assert.ok(a !== undefined && b !== undefined);
  const health = (among: readonly { url: string }[], timeoutMs = 10_000) =>
    cluster.front.request('GET', '/healthz', { among, timeoutMs, retries: false });
  assert.equal((await health([a])).status, 200);
  await a.freeze();
  await assert.rejects(health([a], 300), (error) => error instanceof NoAnswer && error.code === 'timeout');
  a.thaw();
  assert.equal((await health([a])).status, 200);
  await b.kill();
  await assert.rejects(health([b]), (error) => error instanceof NoAnswer && error.code === 'reset' && error.unsent);
  const reply = await cluster.front.request('GET', '/healthz');
  assert.equal(reply.by, a);
  const pids = cluster.members.map(({ pid }) => pid);
  await end();
  for (const pid of pids) assert.ok(pid === undefined || !existsSync(`/proc/${pid}`));
  const third = a.address.split('.')[2];
  assert.deepEqual(
    readdirSync('/run/netns').filter((name) => name.startsWith(`trb${third}-`)),
    [],
  );
  assert.ok(!readdirSync('/sys/class/net').includes(`trb${third}`));
});
