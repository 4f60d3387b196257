/** Processor time of processes, from proc(5), and of what stands beside the services: nats-server and PostgreSQL. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const TICKS = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

interface Stat {
  readonly parent: number;
  readonly own: number;
  /** Of children that have ended. */
  readonly ended: number;
}

/** Processor seconds that these processes have used. */
export function secondsOf(pids: readonly (number | undefined)[]): number {
  return pids.reduce<number>((sum, pid) => sum + (stat(pid)?.own ?? 0), 0);
}

/** Processor seconds of a PostgreSQL with all of its processes, by the folder of its socket. */
export function databaseSeconds(socketDir: string): number {
  const postmaster = Number(readFileSync(join(socketDir, '.s.PGSQL.5432.lock'), 'utf8').split('\n')[0]);
  const root = stat(postmaster);
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const children = all.map((name) => stat(Number(name))).filter((one) => one?.parent === postmaster);
  return children.reduce((sum, one) => sum + (one?.own ?? 0), (root?.own ?? 0) + (root?.ended ?? 0));
}

/** Undefined once the process is gone. */
function stat(pid: number | undefined): Stat | undefined {
  try {
    // The name, in brackets, may have anything in it.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    const at = (place: number) => Number(fields[place]) / TICKS;
    return { parent: Number(fields[1]), own: at(11) + at(12), ended: at(13) + at(14) };
  } catch {
    return undefined;
  }
}
