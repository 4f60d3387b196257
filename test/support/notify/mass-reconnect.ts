/** All clients come back at once, as after a restart, each with the id it saw last. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type Cleanup, freePort } from '../temp.ts';
import { until } from '../until.ts';
import { FollowingClient } from './following-client.ts';
import { ServiceProcess } from './process.ts';
import { startTrial } from './trial.ts';

export interface ReconnectOptions {
  readonly users: number;
  /** At most five. */
  readonly perUser: number;
  readonly rounds: number;
  /** How long all may take to be back, ms. */
  readonly settleMs: number;
}

export interface ReconnectReport {
  /** Of each round: from the start of the service until every client had what it missed, ms. */
  readonly backMs: readonly number[];
  /** Most resident memory of the service's process. */
  readonly memoryMb: number;
  readonly seen: number;
}

/** Runs it. Rejects with what is not as promised. */
export async function runReconnect(t: Cleanup, options: ReconnectOptions): Promise<ReconnectReport> {
  const trial = await startTrial(t, options.users);
  const port = await freePort();
  const service = new ServiceProcess(port, trial.environment());
  t.after(() => service.end());
  await service.start();
  const clients = trial.people.flatMap(({ token }) =>
    Array.from(
      { length: options.perUser },
      () => new FollowingClient(`ws://127.0.0.1:${port}/ws/notifications?token=${token}`, Math.random),
    ),
  );
  t.after(() => {
    for (const client of clients) client.end();
  });
  for (const client of clients) client.begin();
  const allSaw = (count: number) => clients.every(({ isConnected, seen }) => isConnected && seen.length >= count);
  await until(() => allSaw(0), { timeoutMs: options.settleMs, everyMs: 100, what: 'all clients are connected' });
  const backMs: number[] = [];
  let memoryMb = 0;
  for (let round = 1; round <= options.rounds; round++) {
    await service.kill();
    await trial.publishToAll(`round ${round}`);
    await service.start();
    const began = performance.now();
    await until(() => allSaw(round), {
      timeoutMs: options.settleMs,
      everyMs: 100,
      what: `all are back, round ${round}`,
    });
    backMs.push(Math.round(performance.now() - began));
    const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
    memoryMb = Math.max(memoryMb, Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024));
  }
  for (const { problem, seen } of clients) assert.deepEqual([problem, seen.length], [undefined, options.rounds]);
  assert.equal(await trial.rows(), options.users * options.rounds);
  return { backMs, memoryMb, seen: clients.length * options.rounds };
}
