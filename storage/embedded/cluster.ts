import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { open, readdir, readFile, realpath, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from '../../proto/ports/log.ts';
import type { Binaries } from './binaries.ts';
import { findPostmaster, stopPostmaster } from './postmaster.ts';
import { isRunning } from './processes.ts';
import { EmbeddedError, exists, makePrivate, type ServerUser } from './user.ts';

/** Owner of everything in a server of our own. */
export const CLUSTER_USER = 'troupe';
const run = promisify(execFile);
const UNFINISHED_NAME = /^postgres\.init-(\d+)-/;
/** sun_path holds 108 bytes with the closing NUL (unix(7)). */
const MAX_SOCKET_PATH = 107;

/** Major version that made the cluster in `dir`; undefined when there is no cluster yet. */
export async function clusterVersion(dir: string): Promise<number | undefined> {
  const text = await readFile(join(dir, 'PG_VERSION'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  if (!(await exists(join(dir, 'global', 'pg_control')))) {
    throw new EmbeddedError(
      'not_a_cluster',
      `The database in ${dir} is damaged: global/pg_control is missing. Restore it from a backup.`,
    );
  }
  return Number.parseInt(text, 10);
}

interface DatabaseClusterOptions {
  readonly home: string;
  readonly binaries: Binaries;
  readonly user: ServerUser | undefined;
}

/**
 * Makes the cluster when there is none: in a directory of its own that gets its name once it is complete, so a
 * half-made one is never taken for whole. Of two that make one at once, the later discards its own.
 */
export async function ensureCluster(
  options: DatabaseClusterOptions & { readonly log: Log; readonly onProgress: (line: string) => void },
): Promise<void> {
  const { home, log, onProgress } = options;
  const dir = join(home, 'postgres');
  await removeUnfinished(home);
  if ((await clusterVersion(dir)) !== undefined) return;
  await setAside(dir, log);
  onProgress('Creating the database (some seconds, once)');
  const unfinished = await newCluster(options);
  try {
    await rename(unfinished, dir);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    if ((await clusterVersion(dir)) !== undefined) return;
    throw error;
  }
  await syncDirectory(home);
  onProgress('The database was created');
}

/** Makes a cluster under a name that tells it from a finished one, and returns its path. */
export async function newCluster({ home, binaries, user }: DatabaseClusterOptions): Promise<string> {
  const dir = join(home, `postgres.init-${process.pid}-${randomUUID()}`);
  await makePrivate(dir, user);
  const options = ['-U', CLUSTER_USER, '--auth-local=trust', '--auth-host=reject', '--encoding=UTF8', '--locale=C'];
  try {
    await initdb(dir, binaries, user, options);
  } catch (cause) {
    await rm(dir, { recursive: true, force: true });
    throw cause;
  }
  return dir;
}

/** Has everything in a cluster written to the disk. Its server must not run. */
export function syncCluster(dir: string, { binaries, user }: Omit<DatabaseClusterOptions, 'home'>): Promise<void> {
  return initdb(dir, binaries, user, ['--sync-only']);
}

async function initdb(
  dir: string,
  { bin }: Binaries,
  user: ServerUser | undefined,
  options: readonly string[],
): Promise<void> {
  const account = user === undefined ? {} : { uid: user.uid, gid: user.gid };
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };
  try {
    await run(join(bin, 'initdb'), ['-D', dir, ...options], { ...account, cwd: dir, env, maxBuffer: 4 << 20 });
  } catch (cause) {
    const said = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : String(cause);
    throw new EmbeddedError('start_failed', `The database could not be created: ${said}`, { cause });
  }
}

/** Leftovers of processes that are gone. */
export async function removeUnfinished(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    const pid = UNFINISHED_NAME.exec(name)?.[1];
    if (pid === undefined || isRunning(Number(pid))) continue;
    const dir = join(home, name);
    // An upgrade has servers, which outlive it.
    const server = await findPostmaster(dir);
    if (server !== undefined) await stopPostmaster(server, dir, 0);
    await rm(dir, { recursive: true, force: true });
  }
}

/** A directory without a version file is no cluster; it is kept under another name since we did not make it so. */
async function setAside(dir: string, log: Log): Promise<void> {
  const content = await readdir(dir).catch(() => []);
  if (content.length === 0) return;
  const aside = `${dir}.incomplete-${Date.now()}`;
  await rename(dir, aside);
  log.warn({ dir: aside }, 'an incomplete database was moved aside');
}

/** Has the names in a directory written to the disk. */
export async function syncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, 'r');
  await handle.sync();
  await handle.close();
}

/**
 * The directory of the server's socket, private to its account (that is the access control; there are no passwords).
 * Below the server's home where the path fits a socket address, else in /run (root) or the temporary folder, named by a
 * hash of the server's home.
 */
export async function socketDirectory(home: string, user: ServerUser | undefined): Promise<string> {
  const name = '.s.PGSQL.5432';
  const wanted = join(home, 'postgres-socket');
  const fits = Buffer.byteLength(join(wanted, name)) <= MAX_SOCKET_PATH;
  const hash = createHash('sha256')
    .update(await realpath(home))
    .digest('hex')
    .slice(0, 16);
  const base = user === undefined ? tmpdir() : '/run';
  const dir = fits ? wanted : join(base, `troupe-${process.getuid?.() ?? 0}-${hash}`);
  await makePrivate(dir, user);
  return dir;
}
