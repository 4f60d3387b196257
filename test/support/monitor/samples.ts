/** Samples as sources give them. */
import type { NodeSample, PodSample } from '../../../proto/ports/metrics-source.ts';

/** A machine that does well. */
export function nodeSample(more: Partial<NodeSample> = {}): NodeSample {
  return {
    ...{ name: 'box1', cpuMillis: 250, cpuCapacityMillis: 2000, memoryBytes: 2 ** 30, memoryCapacityBytes: 2 ** 31 },
    ...{ diskBytes: 50, diskCapacityBytes: 100, conditions: [{ type: 'Ready', status: 'True' }] },
    ...more,
  };
}

/** A container of `userId` that does well. */
export function podSample(userId: string, id: string, more: Partial<PodSample> = {}): PodSample {
  return {
    ...{ name: id, namespace: `compute-${userId}-${id}`, node: 'box1', userId, containerId: id },
    ...{ cpuMillis: 1, cpuCapacityMillis: 500, memoryBytes: 1, memoryCapacityBytes: 2 ** 29, diskBytes: 1 },
    ...{ restarts: 0, crashedAt: [], oomKills: 0 },
    ...more,
  };
}
