/** Whether a signal to stop has done its work. */
import { readdirSync, readFileSync } from 'node:fs';

/** Whether every thread of a process is stopped: SIGSTOP reaches them one by one. */
export function standsStill(pid: number | undefined): boolean {
  const threads = `/proc/${pid}/task`;
  return readdirSync(threads).every((id) => /^State:\tT/m.test(readFileSync(`${threads}/${id}/status`, 'utf8')));
}
