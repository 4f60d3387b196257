import { type ChildProcess, spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { errorText } from '../../../../lib/errors.ts';
import type { Ending } from '../../../../proto/ports/ending.ts';
import { EngineError } from '../../../../proto/ports/engine.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import { cleanReason } from '../../common/calls.ts';
import { DockerClient } from '../api/client.ts';
import { findProgram, isRoot, SYSTEM_PATH } from '../run.ts';
import { type DockerdFiles, dockerdFiles, sharedSettings } from './dockerd-files.ts';
import { endShims, unmountLeftovers } from './dockerd-leftovers.ts';
import { endProcess, isAlive, lookAfter, runningProcess } from './processes.ts';

/** What a private dockerd is started from. */
interface PrivateDockerdOptions {
  /** Its things go under `<dataDir>/docker`. */
  readonly dataDir: string;
  readonly log: Log;
  readonly onProgress?: (line: string) => void;
}

/** A private dockerd that answers. */
interface PrivateDockerd {
  /** As for `dockerEngine`. */
  readonly host: string;
  readonly pid: number;
  /** Whether it ran already. */
  readonly attached: boolean;
}

/** A log larger than this is set aside at the next start. */
const LARGE_LOG_BYTES = 10 * 1024 * 1024;
/** How long dockerd may take to answer: its first start on a busy disk takes long. */
const ANSWER_MS = 180_000;

/** Whether `startPrivateDockerd` has something to start. */
export function dockerdInstalled(): boolean {
  return findProgram('dockerd') !== undefined;
}

/**
 * Starts a dockerd for this data folder, or attaches to the one that runs. It goes on when this process ends, and its
 * containers go on when it is started anew (live restore). Rejects with EngineError `refused` when it cannot be (not
 * root, not installed), or `unavailable` with the end of its log when it does not come up.
 */
export async function startPrivateDockerd(options: PrivateDockerdOptions): Promise<PrivateDockerd> {
  const program = findProgram('dockerd');
  if (program === undefined) throw new EngineError('refused', 'dockerd is not installed: apt-get install docker.io');
  if (!isRoot()) throw new EngineError('refused', 'A private dockerd needs root.');
  const files = dockerdFiles(options.dataDir);
  const host = `unix://${files.socket}`;
  const running = runningDockerd(files);
  if (running !== undefined && (await attached(running, host, files, options))) {
    return { host, pid: running, attached: true };
  }
  options.onProgress?.('starting a private dockerd');
  for (let tries = 1; ; tries++) {
    try {
      return { host, pid: await tryStart(program, files, host, options), attached: false };
    } catch (error) {
      if (!(error instanceof DockerdCrashed) || tries === MAX_STARTS) throw error;
      options.log.warn({ err: error, tries }, 'the private dockerd crashed while it started, and is started again');
      // Killed while it made a network with a subnet, Docker 20.10 panics over the half of it that it wrote down, at
      // every start. Without its list of networks it starts; the platform makes those of its containers anew.
      if (error.isOfNetworks) setAside(join(files.dataRoot, 'network', 'files', 'local-kv.db'));
    }
  }
}

/** Whether the dockerd that runs answers; false when it was about to end. Rejects when it does neither. */
async function attached(
  pid: number,
  host: string,
  files: DockerdFiles,
  options: PrivateDockerdOptions,
): Promise<boolean> {
  options.log.info({ pid }, 'attaching to the private dockerd');
  const ended = (): string | undefined => (isAlive(pid) ? undefined : 'it ended');
  try {
    await untilItAnswers(host, ended, files, 0);
    return true;
  } catch (error) {
    if (ended() === undefined) throw error;
    options.log.info({ pid }, 'the private dockerd has ended meanwhile');
    return false;
  }
}

/** It ended with a Go runtime's panic (exit code 2) instead of saying what is wrong. */
class DockerdCrashed extends EngineError {
  /** Whether it was its part for networks that did. */
  readonly isOfNetworks: boolean;

  constructor(cause: EngineError, isOfNetworks: boolean) {
    super(cause.code, cause.message, { cause });
    this.name = 'EngineError';
    this.isOfNetworks = isOfNetworks;
  }
}

function setAside(file: string): void {
  if (existsSync(file)) renameSync(file, `${file}.broken`);
}

const MAX_STARTS = 3;
const GO_PANIC = 2;

/** Starts it and resolves with its pid once it answers. */
async function tryStart(
  program: string,
  files: DockerdFiles,
  host: string,
  options: PrivateDockerdOptions,
): Promise<number> {
  // Left by one that was killed: dockerd refuses to start beside a pid file whose number is in use again.
  rmSync(files.pidFile, { force: true });
  // The same for its containerd, which it would wait for in vain, zombie or stranger.
  if (runningContainerd(files) === undefined) rmSync(files.containerdPidFile, { force: true });
  const { child, logStart } = launch(program, files);
  let ended: string | undefined;
  let isPanic = false;
  child.once('error', (error) => {
    ended = errorText(error);
  });
  child.once('exit', (code, signal) => {
    ended = `it ended with ${code ?? signal}`;
    isPanic = code === GO_PANIC;
  });
  try {
    await untilItAnswers(host, () => ended, files, logStart);
  } catch (error) {
    if (child.pid !== undefined && ended === undefined) await endProcess(child.pid, 10_000);
    if (isPanic && error instanceof EngineError) {
      const log = readFileSync(files.logFile).subarray(logStart).toString('utf8');
      throw new DockerdCrashed(error, log.includes('/libnetwork.'));
    }
    throw error;
  }
  child.unref();
  options.log.info({ pid: child.pid }, 'started a private dockerd');
  return child.pid ?? 0;
}

/** The host of a data folder's private dockerd, when one runs; undefined otherwise. */
export async function privateDockerHost(dataDir: string): Promise<string | undefined> {
  if (!existsSync(join(dataDir, 'docker'))) return undefined;
  const files = dockerdFiles(dataDir);
  return runningDockerd(files) === undefined ? undefined : `unix://${files.socket}`;
}

/**
 * Stops the containers of a data folder's private dockerd, then itself. What one left that was killed is ended and
 * unmounted too, so that the folder can be removed. Resolves with whether one ran.
 */
export async function stopPrivateDockerd(options: {
  dataDir: string;
  log: Log;
  graceSeconds?: number;
}): Promise<boolean> {
  if (!existsSync(join(options.dataDir, 'docker'))) return false;
  const files = dockerdFiles(options.dataDir);
  const pid = runningDockerd(files);
  // With live restore, containers would outlive it.
  if (pid !== undefined) {
    await stopAllContainers(`unix://${files.socket}`, options.graceSeconds ?? 10).catch((error: unknown) => {
      options.log.warn({ reason: errorText(error) }, 'cannot stop the containers of the private dockerd');
    });
  }
  const containerd = runningContainerd(files);
  if (pid !== undefined) await endProcess(pid, 30_000);
  // It ends its containerd itself, unless it was killed.
  if (containerd !== undefined) await endProcess(containerd, 10_000);
  await endShims(files.execRoot);
  await unmountLeftovers([files.dataRoot, files.execRoot]);
  if (pid === undefined) return false;
  options.log.info({ pid }, 'stopped the private dockerd');
  return true;
}

function runningDockerd(files: DockerdFiles): number | undefined {
  return runningProcess(files.pidFile, 'dockerd', files.pidFile);
}

function runningContainerd(files: DockerdFiles): number | undefined {
  return runningProcess(files.containerdPidFile, 'containerd', files.execRoot);
}

function launch(program: string, files: DockerdFiles): { child: ChildProcess; logStart: number } {
  const config = {
    ...sharedSettings('/etc/docker/daemon.json'),
    // Containers get a network of ours; a default bridge would be the one of another dockerd on this machine.
    bridge: 'none',
    'live-restore': true,
    'userland-proxy': false,
  };
  writeFileSync(files.configFile, `${JSON.stringify(config, undefined, 2)}\n`, { mode: 0o600 });
  if ((statSync(files.logFile, { throwIfNoEntry: false })?.size ?? 0) > LARGE_LOG_BYTES) {
    renameSync(files.logFile, `${files.logFile}.1`);
  }
  const log = openSync(files.logFile, 'a', 0o600);
  const logStart = fstatSync(log).size;
  const args = [
    '--config-file',
    files.configFile,
    '--host',
    `unix://${files.socket}`,
    '--data-root',
    files.dataRoot,
    '--exec-root',
    files.execRoot,
    '--pidfile',
    files.pidFile,
  ];
  try {
    const child = spawn(program, args, {
      cwd: '/',
      detached: true,
      env: { PATH: SYSTEM_PATH },
      stdio: ['ignore', log, log],
    });
    return { child, logStart };
  } finally {
    closeSync(log);
  }
}

/** `ended`: why it will not answer any more. `logStart`: where what its log says of this begins. */
async function untilItAnswers(
  host: string,
  ended: () => string | undefined,
  files: DockerdFiles,
  logStart: number,
): Promise<void> {
  const client = new DockerClient(host);
  const deadline = Date.now() + ANSWER_MS;
  for (;;) {
    try {
      await client.ping(2000);
      return;
    } catch (cause) {
      const reason = ended() ?? (Date.now() > deadline ? `no answer within ${ANSWER_MS} ms` : undefined);
      if (reason !== undefined) {
        const said = `The private dockerd did not come up: ${reason}. ${logTail(files, logStart)}`.trim();
        throw new EngineError('unavailable', said, { cause });
      }
    }
    await delay(100);
  }
}

/** The last lines of the log past `start`; those that tell why it ended when there are such. */
function logTail(files: DockerdFiles, start: number): string {
  let lines: string[] = [];
  try {
    lines = readFileSync(files.logFile).subarray(start).toString('utf8').trim().split('\n');
  } catch {
    return '';
  }
  const telling = lines.filter((line) =>
    /level=(?:fatal|error)|^failed to|^unable to|^panic: |^fatal error: /.test(line),
  );
  return cleanReason((telling.length > 0 ? telling : lines).slice(-3).join(' '));
}

const runningList = z.array(z.object({ Id: z.string() }));

async function stopAllContainers(host: string, graceSeconds: number): Promise<void> {
  const client = new DockerClient(host);
  try {
    const left = await client.json('GET', '/containers/json', runningList);
    const walk = async (): Promise<void> => {
      for (let one = left.pop(); one !== undefined; one = left.pop()) {
        await client.call('POST', `/containers/${one.Id}/stop`, {
          query: { t: graceSeconds },
          timeoutMs: (graceSeconds + 30) * 1000,
        });
      }
    };
    await Promise.all(Array.from({ length: 8 }, walk));
  } finally {
    client.close();
  }
}

/** How often it is looked after. */
const LOOK_EVERY_MS = 2000;
/**
 * Starts the private dockerd of a data folder again whenever it has ended, as a machine's own would be by its init.
 * Until closed, which waits for a start under way; dockerd itself goes on.
 */
export function keepPrivateDockerd(options: {
  readonly dataDir: string;
  readonly log: Log;
  readonly lookEveryMs?: number;
}): Ending {
  const { dataDir, log, lookEveryMs = LOOK_EVERY_MS } = options;
  return lookAfter(
    lookEveryMs,
    async () => {
      if ((await privateDockerHost(dataDir)) !== undefined) return;
      log.warn({}, 'the private dockerd has ended, and is started again');
      await startPrivateDockerd({ dataDir, log });
    },
    (error, nextInMs) => log.error({ err: error, nextInMs }, 'the private dockerd cannot be started again'),
  );
}
