/**
 * How this machine does, and this process: the kernel's counts of processors and of memory (Linux: MemAvailable),
 * statfs for disks.
 */
import { readFile, stat, statfs } from 'node:fs/promises';
import { cpus, freemem, totalmem } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { DiskSample, MetricsSource, NodeSample, PodSample } from '../../../proto/ports/metrics-source.ts';

/** Available below this share of memory is pressure; of a disk, the share at which Kubernetes evicts. */
const MEMORY_PRESSURE = 0.05;
const DISK_PRESSURE = 0.1;
const NO_DISK: DiskSample = { path: '', usedBytes: 0, capacityBytes: 0 };

/** The machine as a node `name`; `paths`: on disks that count. The first read has the load since it was made. */
export function hostMetrics(options: { readonly name: string; readonly paths: readonly string[] }): MetricsSource {
  const { name, paths } = options;
  let calls = 0;
  const load = processorLoad();
  return {
    name: 'host',
    get calls() {
      return calls;
    },
    identify: async () => ['host', name, await bootId(), ...paths].join(' '),
    async read() {
      calls += 1;
      const disks = await disksOf(paths);
      const memory = { total: totalmem(), available: freemem() };
      const capacity = Math.max(1, cpus().length);
      const fullest = disks.toSorted((one, other) => shareOf(other) - shareOf(one))[0] ?? NO_DISK;
      const node: NodeSample = {
        name,
        cpuMillis: load() * capacity * 1000,
        cpuCapacityMillis: capacity * 1000,
        memoryBytes: memory.total - memory.available,
        memoryCapacityBytes: memory.total,
        diskBytes: fullest.usedBytes,
        diskCapacityBytes: fullest.capacityBytes,
        disks,
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'MemoryPressure', status: truth(memory.available < memory.total * MEMORY_PRESSURE) },
          { type: 'DiskPressure', status: truth(shareOf(fullest) > 1 - DISK_PRESSURE) },
        ],
      };
      return { nodes: [node] };
    },
    close: async () => {},
  };
}

/** Tells machines of one name apart. */
async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

function shareOf({ usedBytes, capacityBytes }: DiskSample): number {
  return capacityBytes > 0 ? usedBytes / capacityBytes : 0;
}

function truth(value: boolean): string {
  return value ? 'True' : 'False';
}

/** The file systems of `paths`, each once, under where it is mounted. Rejects when a path is not there. */
async function disksOf(paths: readonly string[]): Promise<DiskSample[]> {
  const mounts = new Set(await Promise.all(paths.map(mountPointOf)));
  return Promise.all(
    [...mounts].map(async (path) => {
      const { blocks, bfree, bavail, bsize } = await statfs(path);
      // What only root may take counts as neither used nor free.
      const usedBytes = (blocks - bfree) * bsize;
      return { path, usedBytes, capacityBytes: usedBytes + bavail * bsize };
    }),
  );
}

/** The highest folder above `path` on the same device. */
async function mountPointOf(path: string): Promise<string> {
  let found = resolve(path);
  const { dev } = await stat(found);
  for (;;) {
    const above = dirname(found);
    if (above === found || (await stat(above)).dev !== dev) return found;
    found = above;
  }
}

/** What gives the share of their time that all processors were busy since it was last asked, 0 to 1. */
export function processorLoad(): () => number {
  let last = times();
  let share = 0;
  return () => {
    const now = times();
    const total = now.total - last.total;
    // Asked twice within a tick of the kernel, nothing was counted yet.
    if (total > 0) {
      share = Math.min(1, Math.max(0, 1 - (now.idle - last.idle) / total));
      last = now;
    }
    return share;
  };
}

function times(): { total: number; idle: number } {
  let [total, idle] = [0, 0];
  for (const { times } of cpus()) {
    total += times.user + times.nice + times.sys + times.idle + times.irq;
    idle += times.idle;
  }
  return { total, idle };
}

/**
 * This process as a pod of the core namespace, since it was last asked. What it stores is in the database: its own disk
 * is 0.
 */
export function ownProcess(options: { readonly name: string; readonly namespace: string; readonly node: string }) {
  let [used, at, cpuMillis] = [process.cpuUsage(), performance.now(), 0];
  return (): readonly PodSample[] => {
    const now = performance.now();
    // Asked twice at once, it would divide by nothing.
    if (now - at >= 100) {
      const since = process.cpuUsage(used);
      cpuMillis = (since.user + since.system) / (now - at);
      [used, at] = [process.cpuUsage(), now];
    }
    return [
      {
        ...options,
        cpuMillis,
        cpuCapacityMillis: cpus().length * 1000,
        memoryBytes: process.memoryUsage.rss(),
        memoryCapacityBytes: totalmem(),
        diskBytes: 0,
        diskCapacityBytes: 0,
        restarts: 0,
        crashedAt: [],
        oomKills: 0,
      },
    ];
  };
}
