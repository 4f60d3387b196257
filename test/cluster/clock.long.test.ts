/** Processes whose clocks jump. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';
import { preloaded } from '../support/project.ts';
import { until } from '../support/until.ts';

test('the clock of a process jumps by an hour, ahead and back, and over a leap second: it keeps its shards, and answers', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 2, { nodeArgs: preloaded('other-clock') });
  const [one, two] = cluster.members;
  assert.ok(one !== undefined && two?.pid !== undefined);
  const { pid } = two;
  const held = new Set((await cluster.shards()).get(two));
  const there = clients.filter(({ shard }) => held.has(shard));
  assert.ok(there.length > 0);
  const row = z.object({ epochs: z.string(), expires: z.date() });
  const look = () =>
    cluster.db.one(
      row,
      `select n.expires_at as expires, (select string_agg(shard || ':' || epoch, ',' order by shard) from placement_shards where owner = n.id) as epochs
       from placement_nodes n where n.address like '%:' || $1`,
      [String(pid)],
    );
  const epochs = async () => (await look())?.epochs;
  const round = async () => {
    const before = await epochs();
    await jumps();
    return before === (await epochs());
  };
  const jumps = async () => {
    for (const jump of ['an hour ahead', 'an hour back', 'a leap second', 'right again']) {
      const last = (await look())?.expires ?? new Date();
      process.kill(pid, 'SIGUSR2');
      await until(async () => ((await look())?.expires.getTime() ?? 0) - last.getTime() > 1500, {
        what: `it beats on: ${jump}`,
        timeoutMs: 60_000,
      });
      // Asked of the other one, which finds them at this one.
      for (const client of there) {
        const { outcome } = await load.write(client, { among: [one], timeoutMs: 30_000 });
        assert.equal(outcome, 'ok', `${jump}: ${load.failures.at(-1)}`);
      }
    }
  };
  // On a machine that stands still for seconds leases are lost whatever the clock says: not in each of three rounds.
  const moved = [];
  while (moved.length < 3 && !(await round())) moved.push(await epochs());
  assert.ok(moved.length < 3, 'shards have moved each time');
  assert.deepEqual((await load.verdict()).findings, []);
});
