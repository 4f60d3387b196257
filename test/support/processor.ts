/** Processor time of other processes, as Linux counts it. */
import { readFileSync } from 'node:fs';

/** proc(5); a tick is 10 ms. */
const TICK_MS = 10;

/** What a process has used so far, ms. */
export function processorMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
