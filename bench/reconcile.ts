/**
 * How much longer than a bare `docker run` does a container take from POST to running?
 *
 * `npm run bench -- reconcile [ROUNDS]`, with DOCKER_HOST: the real command line on the tiny image of the tests. Each round makes one
 * container by POST and waits for `running` on /compute/ws, one by `docker run -d` (where the command is installed), and one by the
 * two API calls it makes, both with a volume and the limits of ours, waiting until its sshd greets. So `ready` rows hold the
 * same start of sshd, and the difference is the platform's.
 */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { websocket } from '../test/support/clients/websocket.ts';
import { deleteAll, logIn, request, startPlatform } from '../test/support/cluster/platform.ts';
import { testDatabase } from '../test/support/database/database.ts';
import { docker, inDocker, tinyImage } from '../test/support/engine/docker-client.ts';
import { findProgram } from '../test/support/require.ts';
import { publicKey } from '../test/support/ssh/public-key.ts';
import { until } from '../test/support/until.ts';

const run = promisify(execFile);
const rounds = Number(process.argv[2] ?? 15);
const PASSWORD = 'the admin of this benchmark';
const LABEL = 'troupe.bench';
const MB = 2 ** 20;

const ends: (() => unknown)[] = [];
const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
const samples = new Map<string, number[]>();
const add = (row: string, ms: number) => samples.set(row, [...(samples.get(row) ?? []), ms]);

/** Waits until sshd greets at an address, looking every few milliseconds. */
async function greets(address: string): Promise<void> {
  for (;;) {
    const socket = connect(22, address);
    try {
      const [data] = await once(socket, 'data', { signal: AbortSignal.timeout(500) });
      if (String(data).startsWith('SSH-')) return;
    } catch {
      await delay(2);
    } finally {
      socket.destroy();
    }
  }
}

const inspected = z.object({
  NetworkSettings: z.object({
    IPAddress: z.string(),
    Networks: z.record(z.string(), z.object({ IPAddress: z.string() })),
  }),
});

async function readyAt(id: string): Promise<void> {
  const { NetworkSettings } = await docker().json('GET', `/containers/${id}/json`, inspected);
  await greets(Object.values(NetworkSettings.Networks)[0]?.IPAddress ?? '');
}

async function removed(id: string, volume: string): Promise<void> {
  await docker().call('DELETE', `/containers/${id}`, { query: { force: true, v: true } });
  await docker().call('DELETE', `/volumes/${volume}`);
}

async function bareCommand(image: string, network: string, round: number): Promise<void> {
  const volume = `bench-command-${round}`;
  const from = performance.now();
  const { stdout } = await run(findProgram('docker') ?? 'docker', [
    ...['run', '-d', '--init', '--label', LABEL, '--network', network, '-v', `${volume}:/root`],
    ...['--memory', '512m', '--cpus', '0.5', image],
  ]);
  add('docker run', performance.now() - from);
  await readyAt(stdout.trim());
  add('docker run, ready', performance.now() - from);
  await removed(stdout.trim(), volume);
}

async function bareCalls(image: string, network: string, round: number): Promise<void> {
  const volume = `bench-calls-${round}`;
  const from = performance.now();
  const { Id } = await docker().json('POST', '/containers/create', z.object({ Id: z.string() }), {
    body: {
      Image: image,
      Labels: { [LABEL]: '' },
      HostConfig: {
        ...{ Init: true, Memory: 512 * MB, MemorySwap: 512 * MB, NanoCpus: 5e8, NetworkMode: network },
        Mounts: [{ Type: 'volume', Source: volume, Target: '/root' }],
      },
    },
  });
  await docker().call('POST', `/containers/${Id}/start`);
  add('API calls', performance.now() - from);
  await readyAt(Id);
  add('API calls, ready', performance.now() - from);
  await removed(Id, volume);
}

try {
  const image = await tinyImage();
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const data = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  cleanup.after(() => rm(data, { recursive: true, force: true }));
  const platform = await startPlatform({
    data,
    env: { DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD: PASSWORD },
  });
  cleanup.after(() => platform.stop());
  const { auth, compute } = platform.ready.urls;
  const token = await logIn(auth, 'admin', PASSWORD);
  cleanup.after(() => deleteAll(compute, token));
  const key = await request('POST', `${compute}/compute/ssh-keys`, {
    token,
    body: { name: 'k', public_key: publicKey() },
  });
  const socket = await websocket(cleanup, `${compute.replace('http', 'ws')}/compute/ws?token=${token}`);

  const ours = async (): Promise<string> => {
    const from = performance.now();
    const { json } = await request('POST', `${compute}/compute/containers`, {
      token,
      body: { name: 'x', ssh_key_ids: [key.json.id] },
    });
    const id = z.string().parse(json.id);
    add('answer to POST', performance.now() - from);
    for (const status of ['initializing', 'running']) {
      await socket.find((frame) => 'text' in frame && frame.text.includes(id) && frame.text.includes(`"${status}"`));
      add(status, performance.now() - from);
    }
    const network = (await inDocker(id))[0]?.networks[0] ?? '';
    return `${id} ${network}`;
  };
  const forget = async (id: string) => {
    await request('DELETE', `${compute}/compute/containers/${id}`, { token });
    await until(async () => (await inDocker(id)).length === 0, { timeoutMs: 30_000 });
  };
  // The first of all makes what is made once.
  await forget((await ours()).split(' ')[0] ?? '');
  samples.clear();
  const { json } = await request('POST', `${compute}/compute/containers`, {
    token,
    body: { name: 'net', ssh_key_ids: [key.json.id] },
  });
  const holder = z.string().parse(json.id);
  const network = await until(async () => (await inDocker(holder))[0]?.networks[0], { timeoutMs: 30_000 });
  await until(async () => (await inDocker(holder))[0]?.state === 'running', { timeoutMs: 30_000 });
  for (let round = 0; round < rounds; round++) {
    const [id = ''] = (await ours()).split(' ');
    await forget(id);
    if (findProgram('docker') !== undefined) await bareCommand(image, network, round);
    await bareCalls(image, network, round);
  }
  report();
} finally {
  for (const end of ends) await end();
}

function report(): void {
  const median = (row: string): number => {
    const sorted = (samples.get(row) ?? []).toSorted((a, b) => a - b);
    return Math.round(sorted[Math.floor(sorted.length / 2)] ?? Number.NaN);
  };
  const peers = Object.fromEntries(
    ['docker run, ready', 'API calls, ready', 'docker run', 'API calls'].map((row) => [row, median(row)]),
  );
  const rows = ['answer to POST', 'initializing', 'running'].map((row) => ({
    row,
    unit: 'ms',
    ours: median(row),
    peers: row === 'running' ? peers : {},
  }));
  for (const { row, ours } of rows)
    process.stdout.write(`${`POST to ${row}`.padEnd(28)}${String(ours).padStart(8)} ms\n`);
  for (const [row, ms] of Object.entries(peers))
    process.stdout.write(`${row.padEnd(28)}${String(ms).padStart(8)} ms\n`);
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'reconcile', machine, rounds, rows })}\n`);
}
