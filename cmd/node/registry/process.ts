/** The process of the registry that comes along: found, started, looked after and ended. */
import { type ChildProcess, spawn } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../../lib/errors.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { isAlive, runningProcess } from '../../../transports/engines/docker/host/dockerd-files.ts';
import { findProgram, SYSTEM_PATH } from '../../../transports/engines/docker/run.ts';
import type { RegistryFiles } from './files.ts';

const PROGRAM = 'docker-registry';

/** Where its program is; undefined when it is not installed. */
export function registryProgram(): string | undefined {
  return findProgram(PROGRAM);
}

/** The process that runs on these files. */
export function runningRegistry(files: RegistryFiles): number | undefined {
  return runningProcess(files.pid, PROGRAM, files.config);
}

/** How long it may take to answer, and to end, ms. */
const ANSWER_MS = 30_000;
const END_MS = 10_000;
/** How often it is looked after, and the longest wait after starts that failed, ms. */
const LOOK_EVERY_MS = 1000;
const LONGEST_WAIT_MS = 60_000;
/** Its log is cut at this size, and once kept. */
const MOST_LOG_BYTES = 5 * 1024 * 1024;

/** Starts it. Resolves once it answers on its port; rejects with the end of its log when it does not. */
export async function startRegistry(files: RegistryFiles, port: number): Promise<void> {
  boundLog(files);
  const child = launch(files);
  let ended: string | undefined;
  child.once('error', (error) => {
    ended = errorText(error);
  });
  child.once('exit', (code, signal) => {
    ended = `it ended with ${code ?? signal}`;
  });
  if (child.pid !== undefined) writeFileSync(files.pid, `${child.pid}\n`, { mode: 0o600 });
  child.unref();
  const deadline = Date.now() + ANSWER_MS;
  while (!(await answers(port))) {
    const reason = ended ?? (Date.now() > deadline ? 'it does not answer' : undefined);
    if (reason === undefined) {
      await delay(50);
      continue;
    }
    if (child.pid !== undefined && ended === undefined) await endProcess(child.pid);
    throw new Error(`${PROGRAM} did not come up: ${reason}. ${logTail(files)}`.trim());
  }
}

function launch(files: RegistryFiles): ChildProcess {
  // Appended to, so that it can be cut while it is written.
  const log = openSync(files.log, 'a', 0o600);
  try {
    return spawn(registryProgram() ?? PROGRAM, ['serve', files.config], {
      cwd: '/',
      detached: true,
      // Variables that begin with REGISTRY_ would change its configuration.
      env: { PATH: SYSTEM_PATH },
      stdio: ['ignore', log, log],
    });
  } finally {
    closeSync(log);
  }
}

async function answers(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/v2/`, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.status === 401;
  } catch {
    return false;
  }
}

function logTail(files: RegistryFiles): string {
  try {
    return readFileSync(files.log, 'utf8').trim().split('\n').slice(-2).join(' ').slice(-500);
  } catch {
    return '';
  }
}

/** Past its bound, the log begins anew, and what it had is kept beside it. */
function boundLog(files: RegistryFiles): void {
  if ((statSync(files.log, { throwIfNoEntry: false })?.size ?? 0) <= MOST_LOG_BYTES) return;
  copyFileSync(files.log, `${files.log}.1`);
  truncateSync(files.log);
}

/** Ends the process that runs on these files. Resolves with whether one ran. */
export async function endRegistry(files: RegistryFiles): Promise<boolean> {
  const pid = runningRegistry(files);
  if (pid === undefined) return false;
  await endProcess(pid);
  rmSync(files.pid, { force: true });
  return true;
}

/** SIGTERM, and SIGKILL if that is not enough. */
async function endProcess(pid: number): Promise<void> {
  const signal = (name: NodeJS.Signals): void => {
    try {
      process.kill(pid, name);
    } catch {
      // It ended in between.
    }
  };
  signal('SIGTERM');
  const killAt = Date.now() + END_MS;
  let isKilled = false;
  while (isAlive(pid)) {
    if (!isKilled && Date.now() > killAt) {
      isKilled = true;
      signal('SIGKILL');
    }
    await delay(20);
  }
}

/** Starts it whenever it does not run, and bounds its log. Until closed, which waits for a start under way. */
export function keepRegistry(files: RegistryFiles, port: number, log: Log): Ending {
  const stop = new AbortController();
  const run = async (): Promise<void> => {
    let wait = LOOK_EVERY_MS;
    for (;;) {
      await delay(wait, undefined, { signal: stop.signal });
      try {
        if (runningRegistry(files) === undefined) {
          log.warn({}, 'the image registry does not run, and is started again');
          await startRegistry(files, port);
        }
        boundLog(files);
        wait = LOOK_EVERY_MS;
      } catch (error) {
        wait = Math.min(LONGEST_WAIT_MS, wait * 2);
        log.error({ err: error, nextInMs: wait }, 'the image registry cannot be started again');
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
