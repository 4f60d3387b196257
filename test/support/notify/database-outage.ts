/** The database is away for minutes while notifications come. Nothing is acknowledged, nothing lost, and memory stays bounded. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { z } from 'zod';
import { pause } from '../pause.ts';
import { type Cleanup, freePort } from '../temp.ts';
import { until } from '../until.ts';
import { FollowingClient } from './following-client.ts';
import { ServiceProcess } from './process.ts';
import { startTrial } from './trial.ts';

export interface AwayOptions {
  readonly users: number;
  /** Notifications to each while the database is away. */
  readonly each: number;
  readonly awayMs: number;
  /** How long all may take to arrive once it is back, ms. */
  readonly settleMs: number;
}

export interface AwayReport {
  readonly rows: number;
  readonly seen: number;
  /** Resident memory of the service's process: before, and the most meanwhile. */
  readonly memoryMb: { readonly before: number; readonly most: number };
  readonly settledMs: number;
}

/** Runs it. Rejects with what is not as promised. */
export async function runAway(t: Cleanup, options: AwayOptions): Promise<AwayReport> {
  const trial = await startTrial(t, options.users);
  const gate = await openGate(t, trial.socket);
  const port = await freePort();
  const service = new ServiceProcess(port, trial.environment('127.0.0.1', gate.port));
  t.after(() => service.end());
  await service.start();
  const clients = trial.people.map(
    ({ token }) => new FollowingClient(`ws://127.0.0.1:${port}/ws/notifications?token=${token}`, Math.random),
  );
  t.after(() => {
    for (const client of clients) client.end();
  });
  for (const client of clients) client.begin();
  await until(() => clients.every(({ isConnected }) => isConnected), { timeoutMs: 60_000 });
  await trial.publishToAll('before');
  await until(() => clients.every(({ seen }) => seen.length === 1), { timeoutMs: 60_000 });

  const memory = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1]) / 1024;
  const before = memory();
  let most = before;
  gate.shut();
  const shutAt = performance.now();
  for (let n = 0; n < options.each; n++) await trial.publishToAll(`away ${n}`);
  while (performance.now() - shutAt < options.awayMs) {
    most = Math.max(most, memory());
    await pause(Math.min(200, options.awayMs), 'watch');
  }
  assert.equal(await trial.rows(), options.users);
  gate.open();
  const total = options.users * (options.each + 1);
  const opened = performance.now();
  const all = async () => (await trial.rows()) >= total && clients.every(({ seen }) => seen.length > options.each);
  await until(all, { timeoutMs: options.settleMs, everyMs: 200, what: 'all arrive' });
  const settledMs = performance.now() - opened;
  const letters = await trial.db.one(z.object({ count: z.number() }), 'select count(*) as count from bus_dead_letters');
  const seen = clients.reduce((sum, client) => sum + client.seen.length, 0);
  assert.deepEqual([await trial.rows(), seen, letters?.count], [total, total, 0]);
  for (const { problem } of clients) assert.equal(problem, undefined);
  return { rows: total, seen, memoryMb: { before: Math.round(before), most: Math.round(most) }, settledMs };
}

/** A way to the database that can be shut: connections break, and new ones are refused. */
async function openGate(t: Cleanup, path: string) {
  const open = new Set<Socket>();
  let isOpen = true;
  const server = createServer((socket) => {
    if (!isOpen) {
      socket.destroy();
      return;
    }
    const upstream = connect(path);
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      open.add(one);
      one.on('error', () => {});
      one.on('close', () => {
        open.delete(one);
        other.destroy();
      });
    }
    socket.pipe(upstream).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const shut = () => {
    isOpen = false;
    for (const socket of open) socket.destroy();
  };
  t.after(() => {
    shut();
    server.close();
  });
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return {
    port: address.port,
    shut,
    open: () => {
      isOpen = true;
    },
  };
}
