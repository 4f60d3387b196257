/** How this machine does: the kernel's counts of processors, systeminformation for memory, statfs for its disks. */
import { cpus } from 'node:os';
import { mem } from 'systeminformation';
import type { DiskSample, MetricsSource, NodeSample } from '../../../proto/ports/metrics-source.ts';
import { disksOf } from './disks.ts';
import { processorLoad } from './load.ts';

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
    async read() {
      calls += 1;
      const [memory, disks] = await Promise.all([mem(), disksOf(paths)]);
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

function shareOf({ usedBytes, capacityBytes }: DiskSample): number {
  return capacityBytes > 0 ? usedBytes / capacityBytes : 0;
}

function truth(value: boolean): string {
  return value ? 'True' : 'False';
}
