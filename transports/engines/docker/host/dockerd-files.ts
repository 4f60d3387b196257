import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { findProgram, runProgram } from '../run.ts';

/** Where a private dockerd keeps its things. */
export interface DockerdFiles {
  readonly dataRoot: string;
  readonly execRoot: string;
  readonly socket: string;
  readonly pidFile: string;
  readonly configFile: string;
  readonly logFile: string;
  readonly containerdPidFile: string;
}

/** A socket's path has at most 107 bytes (unix(7)); the longest one under `run` is containerd's. */
const LONGEST_SOCKET = '/exec/containerd/containerd-debug.sock';
const MOST_BYTES = 100;

/**
 * The places of the private dockerd of a data folder; makes the folders, for the owner alone. Sockets and what lasts
 * only until the next boot move to `/run/troupe-<hash>` when the data folder's path is too long for a socket. Throws
 * EngineError `refused` when a folder there is not ours.
 */
export function dockerdFiles(dataDir: string): DockerdFiles {
  mkdirSync(dataDir, { recursive: true });
  const home = join(realpathSync(dataDir), 'docker');
  ownFolder(home);
  const near = join(home, 'run');
  const far = `/run/troupe-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`;
  const run = Buffer.byteLength(near + LONGEST_SOCKET) <= MOST_BYTES ? near : far;
  ownFolder(run);
  return {
    dataRoot: join(home, 'data'),
    execRoot: join(run, 'exec'),
    socket: join(run, 'docker.sock'),
    pidFile: join(run, 'dockerd.pid'),
    configFile: join(home, 'daemon.json'),
    logFile: join(home, 'dockerd.log'),
    containerdPidFile: join(run, 'exec/containerd/containerd.pid'),
  };
}

function ownFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== (process.getuid?.() ?? found.uid)) {
    throw new EngineError('refused', `${path} is not a folder of this user.`);
  }
}

/** What a private Docker should share with the machine's own: how images are reached, which addresses are free. */
export function sharedSettings(systemConfig: string): Record<string, unknown> {
  const shared = ['registry-mirrors', 'insecure-registries', 'dns', 'mtu', 'default-address-pools', 'proxies'];
  let config: unknown;
  try {
    config = JSON.parse(readFileSync(systemConfig, 'utf8'));
  } catch {
    return {};
  }
  if (typeof config !== 'object' || config === null) return {};
  return Object.fromEntries(Object.entries(config).filter(([key]) => shared.includes(key)));
}

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

/** Mount points at or below `folders` in /proc/self/mounts, innermost first; blanks are octal there (proc(5)). */
export function mountsBelow(mounts: string, folders: readonly string[]): string[] {
  return mounts
    .split('\n')
    .map((line) =>
      (line.split(' ')[1] ?? '').replace(/\\([0-7]{3})/g, (_, octal: string) =>
        String.fromCharCode(Number.parseInt(octal, 8)),
      ),
    )
    .filter((path) => folders.some((folder) => path === folder || path.startsWith(`${folder}/`)))
    .sort((a, b) => b.length - a.length);
}

/** Unmounts what a dockerd that was killed mounted below `folders`; what is still in use stays. */
export async function unmountLeftovers(folders: readonly string[]): Promise<void> {
  const program = findProgram('umount');
  if (program === undefined) return;
  const mounts = mountsBelow(readFileSync('/proc/self/mounts', 'utf8'), folders);
  for (const path of mounts) await runProgram(program, [path]);
}

/**
 * Ends what containerd keeps a container by (its shims), and what runs below them: a containerd that was killed forgets
 * some. For when dockerd and containerd have ended; `execRoot` tells this dockerd's from others'.
 */
export async function endShims(execRoot: string): Promise<void> {
  const shims = shimsOf(execRoot);
  if (shims.length === 0) return;
  const all = [...shims, ...childrenOf(shims)];
  for (const pid of all) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended in between.
    }
  }
  // What held a mount must be gone before that is undone; a process that cannot die holds nobody up.
  for (let waits = 0; waits < 100 && all.some(isAlive); waits += 1) await delay(50);
}

/** The shims of a private dockerd: by the socket of its containerd on their command line. */
export function shimsOf(execRoot: string): number[] {
  return processes().filter((pid) => {
    const words = textOf(pid, 'cmdline').split('\0');
    return words[0]?.includes('containerd-shim') === true && words.some((word) => word.startsWith(`${execRoot}/`));
  });
}

/** Their children. A container's first process takes all others of it along. */
function childrenOf(parents: readonly number[]): number[] {
  return processes().filter((pid) => {
    const parent = /^PPid:\s+(\d+)/m.exec(textOf(pid, 'status'))?.[1];
    return parents.includes(Number(parent));
  });
}

function processes(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** A file of a process in proc(5); empty when it has ended. */
function textOf(pid: number, file: 'cmdline' | 'status'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
