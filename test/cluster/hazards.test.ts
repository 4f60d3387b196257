/** What befalls real processes besides being killed, frozen and cut off one at a time. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { skipWithoutCluster, startCluster } from '../kit/cluster/cluster.ts';
import { findProgram, skipWithout } from '../kit/require.ts';
import { until } from '../kit/until.ts';
import { startChronicle } from './chronicle.ts';
import { addClients, Load } from './load.ts';

const skip = skipWithoutCluster();
const EXTENSION = import.meta.url.endsWith('.js') ? 'js' : 'ts';
/** Arguments of node that plant a file of this folder. */
const planted = (name: string) => ['--import', new URL(`./${name}.${EXTENSION}`, import.meta.url).href];

async function setting(t: TestContext, size: number, nodeArgs: readonly string[] = []) {
  const cluster = await startCluster(t, { size, started: 0, nodeArgs });
  const chronicle = await startChronicle(cluster.db);
  await Promise.all(cluster.members.map((member) => member.start()));
  await cluster.settled();
  const clients = await addClients(cluster.db, cluster.front, chronicle, 12);
  const load = await Load.over({ front: cluster.front, chronicle, clients });
  return { cluster, clients, load };
}

test('X03: one process hears nothing of NATS, one nothing of PostgreSQL, one of neither: the fourth has everything; then all share again', {
  skip,
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 4);
  const { members, broker, database } = cluster;
  const [one, two, three, four] = members;
  assert.ok(one && two && three && four);
  load.start();
  await one.cut({ ...broker, direction: 'in' });
  await two.cut({ ...database, direction: 'in' });
  await three.cut({ ...broker, direction: 'both' }, { ...database, direction: 'both' });
  await until(async () => (await cluster.shards()).get(four)?.length === 256, {
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

test('X04: all processes die at once and come back: what was acknowledged is there', { skip }, async (t) => {
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

test('X06: the clock of a process jumps by an hour, ahead and back, and over a leap second: it keeps its shards, and answers', {
  skip,
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 2, planted('other-clock'));
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

test('X15: a process without a file descriptor left goes on, and serves again once it has some', {
  skip: skip || skipWithout('prlimit'),
}, async (t) => {
  const { cluster, clients, load } = await setting(t, 2);
  const [one] = cluster.members;
  const [client] = clients;
  assert.ok(one?.pid !== undefined && client !== undefined);
  const url = new URL(one.url);
  const limit = (files: string) =>
    spawnSync(findProgram('prlimit') ?? 'prlimit', ['--pid', String(one.pid), `--nofile=${files}`]).status;
  assert.equal(limit('64:4096'), 0);
  const sockets: Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  for (let n = 0; n < 200; n++) {
    const socket = connect(Number(url.port), url.hostname);
    socket.on('error', () => {});
    sockets.push(socket);
  }
  await until(() => sockets.filter((socket) => !socket.connecting).length > 100, { what: 'connections come' });
  // The other one goes on; this one at least lives.
  const beside = await load.write(client, { among: cluster.members.slice(1), timeoutMs: 30_000 });
  assert.ok(beside.outcome !== 'refused');
  for (const socket of sockets) socket.destroy();
  assert.equal(limit('4096:4096'), 0);
  const again = () => load.write(client, { among: [one], timeoutMs: 30_000 });
  await until(async () => (await again()).outcome === 'ok', { what: 'it serves again', timeoutMs: 60_000 });
  assert.ok(one.pid !== undefined, `it ended:\n${one.log.slice(-2000)}`);
  assert.deepEqual((await load.verdict()).findings, []);
});
