/** How this machine does: processors and memory by systeminformation, the disk that holds the containers by statfs. */
import { statfs } from 'node:fs/promises';
import { cpus } from 'node:os';
import { currentLoad, mem } from 'systeminformation';
import type { MetricsSource, NodeSample } from '../../proto/ports.ts';

/** Available below this share of memory is pressure; of the disk, the share at which Kubernetes evicts. */
const MEMORY_PRESSURE = 0.05;
const DISK_PRESSURE = 0.1;

/** The machine as a node called `name`; `path` is on the disk that counts. The first read tells the load since the source was made. */
export function hostMetrics(options: { readonly name: string; readonly path: string }): MetricsSource {
  const { name, path } = options;
  let calls = 0;
  // The library counts from its last call on.
  const primed = currentLoad().catch(() => undefined);
  return {
    name: 'host',
    get calls() {
      return calls;
    },
    async read() {
      calls += 1;
      await primed;
      const [load, memory, disk] = await Promise.all([currentLoad(), mem(), statfs(path)]);
      const capacity = Math.max(1, load.cpus.length || cpus().length);
      const diskTotal = disk.blocks * disk.bsize;
      const diskFree = disk.bavail * disk.bsize;
      const node: NodeSample = {
        name,
        cpuMillis: (load.currentLoad / 100) * capacity * 1000,
        cpuCapacityMillis: capacity * 1000,
        memoryBytes: memory.total - memory.available,
        memoryCapacityBytes: memory.total,
        diskBytes: diskTotal - disk.bfree * disk.bsize,
        diskCapacityBytes: diskTotal,
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'MemoryPressure', status: truth(memory.available < memory.total * MEMORY_PRESSURE) },
          { type: 'DiskPressure', status: truth(diskFree < diskTotal * DISK_PRESSURE) },
        ],
      };
      return { nodes: [node] };
    },
    close: async () => {},
  };
}

function truth(value: boolean): string {
  return value ? 'True' : 'False';
}
