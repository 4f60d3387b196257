/** How busy the processors are, by what the kernel counts: a library that runs `cat` holds up everything else. */
import { cpus } from 'node:os';

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
