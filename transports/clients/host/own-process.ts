/** This process, as a pod of the core namespace. */
import { cpus, totalmem } from 'node:os';
import type { PodSample } from '../../../proto/ports/metrics-source.ts';

/** Says how it is since it was last asked. What it stores is in the database: its own disk is 0. */
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
