/** What the kernel says of a process. */
import { readdirSync, readFileSync } from 'node:fs';

/** Whether every thread of a process is stopped: SIGSTOP reaches them one by one. */
export function standsStill(pid: number | undefined): boolean {
  const threads = `/proc/${pid}/task`;
  return readdirSync(threads).every((id) => /^State:\tT/m.test(readFileSync(`${threads}/${id}/status`, 'utf8')));
}

/** Its memory, MiB. */
export function residentMb(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
