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
import type { RegistryRoom } from '../../../proto/ports/local-registry.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { endProcess, lookAfter, runningProcess } from '../../../transports/engines/docker/host/processes.ts';
import { findProgram, SYSTEM_PATH } from '../../../transports/engines/docker/run.ts';
import type { RegistryFiles } from './files.ts';
import { removeUploads, unfinishedUploads } from './store.ts';

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
/** The same while the disk runs full: what it ends meanwhile is short, such as the writing of a manifest. */
const FULL_END_MS = 250;
/** How often it is looked after, ms. */
const LOOK_EVERY_MS = 1000;
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
    if (child.pid !== undefined && ended === undefined) await endProcess(child.pid, END_MS);
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

/** Ends the process that runs on these files, by force after `patienceMs`. Resolves with whether one ran. */
export async function endRegistry(files: RegistryFiles, patienceMs = END_MS): Promise<boolean> {
  const pid = runningRegistry(files);
  if (pid === undefined) return false;
  await endProcess(pid, patienceMs);
  rmSync(files.pid, { force: true });
  return true;
}

/** What is looked after. */
interface KeepOptions {
  readonly files: RegistryFiles;
  readonly port: number;
  /** What its disk takes now. */
  readonly room: () => Promise<RegistryRoom>;
  readonly log: Log;
}

/**
 * Starts it whenever it does not run, bounds its log, and ends uploads that fill the disk. Until closed, which waits
 * for a start under way.
 */
export function keepRegistry({ files, port, room, log }: KeepOptions): Ending {
  return lookAfter(
    LOOK_EVERY_MS,
    async () => {
      if ((await room()) === 'none') await breakOffUploads(files, port, log);
      if (runningRegistry(files) === undefined) {
        log.warn({}, 'the image registry does not run, and is started again');
        await startRegistry(files, port);
      }
      boundLog(files);
    },
    (error, nextInMs) => log.error({ err: error, nextInMs }, 'the image registry cannot be looked after'),
  );
}

/**
 * Ends uploads that are not finished, and removes what they hold: a token is looked at when one begins, which may then
 * send without end. Without any, the disk is filled by something else, and the registry goes on.
 */
async function breakOffUploads(files: RegistryFiles, port: number, log: Log): Promise<void> {
  if ((await unfinishedUploads(files)).length === 0) return;
  await endRegistry(files, FULL_END_MS);
  try {
    // Some may have begun since.
    const uploads = await unfinishedUploads(files);
    await removeUploads(uploads);
    log.warn({ uploads: uploads.length }, 'the disk is full: unfinished pushes of images were ended and removed');
  } finally {
    // Images are pulled all the same.
    await startRegistry(files, port);
  }
}
