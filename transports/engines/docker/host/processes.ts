/** Processes that go on when this one ends: found again by their pid files, ended, and kept running. */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Ending } from '../../../../proto/ports/ending.ts';

/** Between two looks whether a process that was told to end lives still, ms. */
const LOOK_MS = 20;
/** Longest wait after a look that failed, ms. */
const LONGEST_WAIT_MS = 60_000;

/**
 * The process of a pid file, when it lives and runs `program` with `argument` on its command line. A zombie does not
 * live, and a number may have been given to another process since (proc(5)).
 */
export function runningProcess(pidFile: string, program: string, argument: string): number | undefined {
  try {
    const pid = Number(readFileSync(pidFile, 'utf8').trim());
    if (!Number.isInteger(pid) || pid < 2 || !isAlive(pid)) return undefined;
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return words[0]?.endsWith(program) && words.some((word) => word.includes(argument)) ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a process lives; one that ended and was not yet reaped does not. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Sends a signal to a process, or (`-pid`) to a group, that may have ended in between. */
export function signalTo(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It ended in between.
  }
}

/** SIGTERM, then SIGKILL after `graceMs`; resolves once the process is gone. */
export async function endProcess(pid: number, graceMs: number): Promise<void> {
  const killAt = Date.now() + graceMs;
  let killed = false;
  signalTo(pid, 'SIGTERM');
  while (isAlive(pid)) {
    if (!killed && Date.now() > killAt) {
      killed = true;
      signalTo(pid, 'SIGKILL');
    }
    await delay(LOOK_MS);
  }
}

/**
 * Looks after something every `everyMs`, and after looks that fail later and later. Until closed, which waits for the
 * look under way.
 */
export function lookAfter(
  everyMs: number,
  look: () => Promise<void>,
  failed: (error: unknown, nextInMs: number) => void,
): Ending {
  const stop = new AbortController();
  const run = async (): Promise<void> => {
    let wait = everyMs;
    for (;;) {
      await delay(wait, undefined, { signal: stop.signal });
      try {
        await look();
        wait = everyMs;
      } catch (error) {
        wait = Math.min(LONGEST_WAIT_MS, wait * 2);
        failed(error, wait);
      }
    }
  };
  const done = run().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    close: () => {
      stop.abort();
      return done;
    },
  };
}
