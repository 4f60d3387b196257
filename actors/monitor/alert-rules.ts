/** When a container's user is told that something is wrong with it, as pure functions of what was measured. */
import { CORE_NAMESPACE } from '../../proto/monitor/endpoints.ts';
import type { DiskSample, PodSample } from '../../proto/ports/metrics-source.ts';

/** What users are told of, once for each time it happens. */
type AlertKind = 'crash_loop' | 'out_of_memory' | 'disk_nearly_full' | 'disk_full';
export const ALERT_KINDS: readonly AlertKind[] = ['crash_loop', 'out_of_memory', 'disk_nearly_full', 'disk_full'];

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
      // What it wrote is counted seldom: a monitor that has just started knows nothing yet. One that is full is told as
      // that alone.
      if (pod.diskBytes === 0 || shareOfDisk(pod) >= 1) return 'maybe';
      return stateOfDisk(pod.diskBytes, pod.diskCapacityBytes ?? 0);
    case 'disk_full': {
      if (pod.diskBytes === 0) return 'maybe';
      const share = shareOfDisk(pod);
      return share >= 1 ? 'yes' : share < DISK_FULL ? 'no' : 'maybe';
    }
  }
}

function shareOfDisk({ diskBytes, diskCapacityBytes = 0 }: PodSample): number {
  return diskCapacityBytes > 0 ? diskBytes / diskCapacityBytes : 0;
}

/** Whether a disk is nearly full, of a container or of a machine. */
export function stateOfDisk(usedBytes: number, capacityBytes: number): 'yes' | 'no' | 'maybe' {
  const share = capacityBytes > 0 ? usedBytes / capacityBytes : 0;
  return share >= DISK_FULL ? 'yes' : share < DISK_WELL ? 'no' : 'maybe';
}

/** What the user reads; of the disk under the category `storage`, whose scope is the namespace. */
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
        message:
          `"${name}" used all of its memory (${Math.round(pod.memoryCapacityBytes / 2 ** 20)} MiB), and a process ` +
          'in it was ended.',
      };
    case 'disk_nearly_full':
    case 'disk_full': {
      // Rounded down: 99.6 % is not full.
      const uses = `"${name}" uses ${Math.floor(shareOfDisk(pod) * 100)} % of its disk`;
      const storage = { category: 'storage', scope: pod.namespace };
      return kind === 'disk_full'
        ? { ...storage, title: 'Disk full', message: `${uses}: delete what it does not need.` }
        : { ...storage, title: 'Disk nearly full', message: `${uses}.` };
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
