/** A process that runs out of file descriptors. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { skipWithoutCluster } from '../support/cluster/cluster.ts';
import { setting } from '../support/cluster/setup.ts';
import { findProgram, skipWithout } from '../support/require.ts';
import { until } from '../support/until.ts';

test('a process without a file descriptor left goes on, and serves again once it has some', {
  skip: skipWithoutCluster() || skipWithout('prlimit'),
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
