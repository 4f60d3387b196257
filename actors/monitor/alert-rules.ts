/** When a container's user is told that something is wrong with it, as pure functions of what was measured. */

import type { DiskSample, PodSample } from '../../proto/metrics-source.ts';
import { CORE_NAMESPACE } from '../../proto/monitor.ts';

/** What users are told of, once for each time it happens. */
export type AlertKind = 'crash_loop' | 'out_of_memory' | 'disk_nearly_full';
export const ALERT_KINDS: readonly AlertKind[] = ['crash_loop', 'out_of_memory', 'disk_nearly_full'];

/** So many ends that nobody asked for, within the window, are a crash loop. */
const CRASHES = 3;
const WINDOW_MS = 10 * 60_000;
/** An episode lasts this long at least, and is over when nothing of it was seen for as long. */
export const QUIET_MS = 10 * 60_000;
/** Shares of the disk between which an episode goes on. */
const DISK_FULL = 0.9;
const DISK_WELL = 0.8;

/** Whether it goes on: `yes`, `no`, or `maybe`, when neither begins nor ends an episode. */
export function stateOfAlert(kind: AlertKind, pod: PodSample, now: number): 'yes' | 'no' | 'maybe' {
  switch (kind) {
    case 'crash_loop': {
      const lately = pod.crashedAt.filter((at) => now - at < WINDOW_MS).length;
      return lately >= CRASHES ? 'yes' : lately > 0 ? 'maybe' : 'no';
    }
    case 'out_of_memory':
      return pod.oomAt !== undefined && now - pod.oomAt < QUIET_MS ? 'yes' : 'no';
    case 'disk_nearly_full':
      // What it wrote is counted seldom: a monitor that has just started knows nothing yet.
      return pod.diskBytes === 0 ? 'maybe' : stateOfDisk(pod.diskBytes, pod.diskCapacityBytes ?? 0);
  }
}

/** Whether a disk is nearly full, of a container or of a machine. */
export function stateOfDisk(usedBytes: number, capacityBytes: number): 'yes' | 'no' | 'maybe' {
  const share = capacityBytes > 0 ? usedBytes / capacityBytes : 0;
  return share >= DISK_FULL ? 'yes' : share < DISK_WELL ? 'no' : 'maybe';
}

/** What the user reads; of the disk under the category `storage`, whose scope is the namespace (interface section 6.1). */
export function alertText(kind: AlertKind, name: string, pod: PodSample) {
  const compute = { category: 'compute', scope: '' };
  switch (kind) {
    case 'crash_loop':
      return {
        ...compute,
        title: 'Container keeps crashing',
        message: `"${name}" ended and was started again, over and over.`,
      };
    case 'out_of_memory':
      return {
        ...compute,
        title: 'Container out of memory',
        message: `"${name}" used all of its memory (${Math.round(pod.memoryCapacityBytes / 2 ** 20)} MiB), and a process in it was ended.`,
      };
    case 'disk_nearly_full': {
      const share = Math.round((pod.diskBytes / (pod.diskCapacityBytes ?? pod.diskBytes)) * 100);
      return {
        category: 'storage',
        scope: pod.namespace,
        title: 'Disk nearly full',
        message: `"${name}" uses ${share} % of its disk.`,
      };
    }
  }
}

/** What the administrator reads of a machine's disk. */
export function diskText(node: string, { path, usedBytes, capacityBytes }: DiskSample) {
  return {
    category: 'storage',
    scope: CORE_NAMESPACE,
    title: 'Disk nearly full',
    message: `The disk at ${path} of ${node} is ${Math.round((usedBytes / capacityBytes) * 100)} % full.`,
  };
}
