/**
 * What does the platform cost with many containers on Kubernetes, at rest and when it comes back?
 *
 * `npm run bench -- kubernetes [CONTAINERS] [IDLE_SECONDS]` (200 and 20 by default): a real API server, etcd and controllers; pods are said
 * to run by the benchmark as soon as they are there, and greet as SSH servers do. The rows of all containers are there before `troupe up`
 * starts, so it starts them all at once. Then it is left alone, and then killed, meanwhile one pod in fifty is removed, and started again.
 * Traffic is what goes between platform and API server, in TLS. Needs root and scripts/kubernetes-build.sh.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '../proto/ids.ts';
import { insertUser } from '../storage/auth/users.ts';
import { insertContainer } from '../storage/compute/containers.ts';
import { type RunningPlatform, startPlatform } from '../test/support/cluster/platform.ts';
import { testDatabase } from '../test/support/database/database.ts';
import { startCutter } from '../test/support/kubernetes/breaking-proxy.ts';
import { startCluster } from '../test/support/kubernetes/cluster.ts';
import { startFakeNode } from '../test/support/kubernetes/fake-node.ts';
import { startGreeter } from '../test/support/kubernetes/ssh-greeter.ts';
import { until } from '../test/support/until.ts';

const [count = 200, idleSeconds = 20] = process.argv.slice(2).map(Number);
const PER_USER = 3;
const patience = { timeoutMs: 30 * 60_000, everyMs: 200 };
const MB = 2 ** 20;
const rows: { row: string; unit: string; ours: number; peers: object }[] = [];
const ends: (() => unknown)[] = [];

function report(row: string, unit: string, ours: number): void {
  rows.push({ row, unit, ours: Math.round(ours * 100) / 100, peers: {} });
  process.stdout.write(`${row.padEnd(58)}${String(rows.at(-1)?.ours).padStart(10)} ${unit}\n`);
}

/** Processor time in seconds and resident memory in bytes of a process (proc(5)). */
function usageOf({ child }: RunningPlatform): { cpu: number; memory: number } {
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const pages = Number(readFileSync(`/proc/${child.pid}/statm`, 'utf8').split(' ')[1]);
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, memory: pages * 4096 };
}

try {
  const cluster = await startCluster({ withoutNode: true });
  ends.unshift(() => cluster.stop());
  const greeter = await startGreeter();
  ends.unshift(() => greeter.close());
  const node = startFakeNode(cluster, greeter.address);
  ends.unshift(() => node.close());
  const proxy = await startCutter(Number(new URL(cluster.server).port));
  ends.unshift(() => proxy.close());
  const kubeconfig = join(cluster.folder, 'proxied.kubeconfig');
  const config = await readFile(cluster.kubeconfig, 'utf8');
  await writeFile(kubeconfig, config.replace(cluster.server, `https://127.0.0.1:${proxy.port}`));
  const database = await testDatabase();
  ends.unshift(() => database.close());
  const { db } = database;
  const owners = new Map<string, string>();
  for (let n = 0; n < count; n += PER_USER) {
    const userId = newId();
    await insertUser(db, { id: userId, username: `user${n}`, passwordHash: '' });
    for (let own = 0; own < Math.min(PER_USER, count - n); own++) {
      const id = newId();
      owners.set(id, userId);
      await db.tx((tx) =>
        insertContainer(tx, {
          ...{ id, userId, name: `box ${own}`, instanceType: 'tiny', memoryMb: 128, storageGb: 1 },
          ...{ image: null, pullPolicy: 'IfNotPresent', mountPaths: ['/root'], sshEnabled: true },
        }),
      );
    }
  }
  const data = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  ends.unshift(() => rm(data, { recursive: true, force: true }));
  const env = {
    DATABASE_URL: database.url,
    COMPUTE_ENGINE: 'kubernetes',
    KUBECONFIG: kubeconfig,
    DEFAULT_IMAGE: 'x/y:1',
    LOG_LEVEL: 'error',
  };
  const running = (): Promise<number> => db.run("select from containers where status = 'running'");

  const from = performance.now();
  let platform = await startPlatform({ data, env });
  ends.unshift(() => platform.kill());
  let told = 0;
  await until(
    async () => {
      const now = await running();
      if (now - told >= count / 10) {
        told = now;
        process.stderr.write(`${now} of ${count} run\n`);
      }
      return now === count;
    },
    { ...patience, what: 'all run' },
  );
  report(`${count} containers from nothing to running`, 's', (performance.now() - from) / 1000);
  report('processor time of it', 's', usageOf(platform).cpu);
  report('traffic of it', 'MB', (proxy.sent + proxy.received) / MB);

  await delay(5000);
  const [before, sent, received] = [usageOf(platform), proxy.sent, proxy.received];
  await delay(idleSeconds * 1000);
  const after = usageOf(platform);
  report('memory at rest', 'MB', after.memory / MB);
  report('processor at rest', '% of a core', ((after.cpu - before.cpu) / idleSeconds) * 100);
  report('traffic at rest, to the API server', 'kB/s', (proxy.sent - sent) / 1000 / idleSeconds);
  report('traffic at rest, from the API server', 'kB/s', (proxy.received - received) / 1000 / idleSeconds);

  await platform.kill();
  const removed = new Set([...owners.keys()].filter((_, n) => n % 50 === 0));
  const podOf = (id: string): string => `/api/v1/namespaces/compute-${owners.get(id)}-${id}/pods/container-0`;
  const isBack = async (id: string): Promise<boolean> => (await cluster.call('GET', podOf(id))).status === 200;
  for (const id of removed) {
    await cluster.call('DELETE', podOf(id), { gracePeriodSeconds: 0 });
    await until(async () => !(await isBack(id)), { ...patience, what: 'a pod is gone' });
  }
  const [sentBefore, receivedBefore] = [proxy.sent, proxy.received];
  platform = await startPlatform({ data, env });
  const again = performance.now();
  const waiting = new Set(removed);
  const allAreBack = async (): Promise<boolean> => {
    for (const id of waiting) {
      if (!(await isBack(id))) return false;
      waiting.delete(id);
    }
    return (await running()) === count;
  };
  await until(allAreBack, { ...patience, what: 'those that were removed run again' });
  report(`after a restart, until ${removed.size} that were removed run again`, 's', (performance.now() - again) / 1000);
  report('traffic of it', 'MB', (proxy.sent + proxy.received - sentBefore - receivedBefore) / MB);
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'kubernetes', machine, containers: count, rows })}\n`);
} finally {
  for (const end of ends) await end();
}
