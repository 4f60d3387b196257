import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Binaries } from './binaries.ts';
import { isRunning, runsIn } from './processes.ts';
import { EmbeddedError, type ServerUser } from './user.ts';

/** A running server, as its postmaster.pid tells. */
export interface Postmaster {
  readonly pid: number;
  readonly socketDir: string;
  readonly port: number;
}

export interface PostmasterOptions {
  /** The cluster, as an absolute path without symbolic links. */
  readonly dir: string;
  readonly socketDir: string;
  readonly binaries: Binaries;
  readonly user: ServerUser | undefined;
  /** Where the first lines of the server's log go, before its own log file is open. */
  readonly startLog: string;
  /** Server settings over our own. */
  readonly settings: Readonly<Record<string, string>>;
  /** Called once its process runs. */
  readonly onBegun?: (() => void) | undefined;
}

const PORT = 5432;
const MAX_LOG_READ = 16 << 20;

async function readPidFile(dir: string): Promise<(Postmaster & { ready: boolean }) | undefined> {
  const text = await readFile(join(dir, 'postmaster.pid'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const lines = text.split('\n');
  return {
    pid: Number(lines[0]),
    port: Number(lines[3]),
    socketDir: lines[4] ?? '',
    ready: lines[7]?.trim() === 'ready',
  };
}

/** What is said when processes of a server that was killed are still there. */
const LEFTOVERS = /shared memory block .* is still in use|lock file .* already exists|unexpected postmaster exit/;

/** The server that serves `dir`, once it takes connections; undefined when none runs. */
export async function findPostmaster(dir: string): Promise<Postmaster | undefined> {
  for (;;) {
    const found = await readPidFile(dir);
    if (found === undefined || !runsIn(found.pid, dir)) return undefined;
    if (found.ready) return found;
    await sleep(20);
  }
}

/**
 * Starts a server on `dir` and waits until it takes connections (after a crash it first recovers). When another process
 * was faster, that server is returned. Call it under the starters' lock. Rejects EmbeddedError `start_failed` with what
 * the server said.
 */
export async function startPostmaster(options: PostmasterOptions): Promise<Postmaster> {
  const { dir } = options;
  for (let attempt = 1; ; attempt++) {
    const running = await findPostmaster(dir);
    if (running !== undefined) return running;
    // PostgreSQL itself clears what a dead server left, but takes a zombie, or a stranger with its number, for alive.
    const stale = await readPidFile(dir);
    if (stale !== undefined) await rm(join(dir, 'postmaster.pid'), { force: true });
    const since = Date.now();
    const pid = spawnPostmaster(options);
    options.onBegun?.();
    while (isRunning(pid)) {
      const found = await readPidFile(dir);
      if (found?.pid === pid && found.ready) return found;
      await sleep(20);
    }
    const said = await lastLines(options, since);
    // Processes of a killed server hold its memory for a moment, and may be all that is heard.
    if (attempt < 100 && LEFTOVERS.test(said)) {
      await sleep(100);
      continue;
    }
    throw new EmbeddedError('start_failed', `The database server did not start: ${said || 'it said nothing'}`);
  }
}

/** What a server that did not start wrote, to its output and then to its log files. */
async function lastLines({ dir, startLog }: PostmasterOptions, since: number): Promise<string> {
  const texts = [await readFile(startLog, 'utf8').catch(() => '')];
  for (const name of await readdir(join(dir, 'log')).catch(() => [])) {
    const file = join(dir, 'log', name);
    const { mtimeMs, size } = await stat(file);
    // A file may hold a day's lines; those of this start are at its end.
    if (mtimeMs >= since - 1000 && size < MAX_LOG_READ) texts.push((await readFile(file, 'utf8')).slice(-2000));
  }
  return texts
    .join('\n')
    .split('\n')
    .filter((line) => /FATAL|PANIC|ERROR|error/.test(line))
    .slice(-5)
    .join('\n');
}

function spawnPostmaster({ dir, socketDir, binaries, user, startLog, settings }: PostmasterOptions): number {
  const all: Record<string, string> = {
    listen_addresses: '',
    unix_socket_directories: socketDir,
    unix_socket_permissions: '0700',
    port: String(PORT),
    max_connections: '200',
    fsync: 'on',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // One file a weekday, each overwritten a week later, so the logs stay bounded.
    logging_collector: 'on',
    log_directory: 'log',
    log_filename: 'postgresql-%a.log',
    log_truncate_on_rotation: 'on',
    log_rotation_age: '1d',
    log_rotation_size: '0',
    log_min_messages: 'warning',
    log_checkpoints: 'off',
    ...settings,
  };
  const out = openSync(startLog, 'w', 0o600);
  try {
    // A session of its own: Ctrl-C at our terminal must not stop the server under us, nor our death take it along.
    const child = spawn(
      join(binaries.bin, 'postgres'),
      ['-D', dir, ...Object.entries(all).flatMap(([key, value]) => ['-c', `${key}=${value}`])],
      {
        cwd: dir,
        env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
        detached: true,
        stdio: ['ignore', out, out],
        ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
      },
    );
    // Its end is seen by watching the process, the same way whether we started it or found it.
    child.on('error', () => undefined);
    child.unref();
    return child.pid ?? -1;
  } finally {
    closeSync(out);
  }
}

/** How the server ends: `fast` rolls back what runs and closes connections; `immediate` is a crash it recovers from. */
export async function stopPostmaster({ pid }: Postmaster, dir: string, graceMs: number): Promise<void> {
  const deadline = Date.now() + graceMs;
  signal(pid, 'SIGINT');
  while (runsIn(pid, dir)) {
    if (Date.now() > deadline) signal(pid, 'SIGQUIT');
    await sleep(20);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone already.
  }
}
