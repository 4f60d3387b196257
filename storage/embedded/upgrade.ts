/**
 * A database that an older PostgreSQL made, moved to the version that Troupe brings: copied beside the old one,
 * compared with it, and put in its place. Until then the old one is not changed, so whatever ends an upgrade, the next
 * start begins again.
 */
import { readdir, readFile, rename, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { errorText } from '../../lib/errors.ts';
import type { Log } from '../../proto/ports/log.ts';
import { type Binaries, findBinaries, shippedMajor } from './binaries.ts';
import {
  clusterVersion,
  newCluster,
  removeUnfinished,
  socketDirectory,
  syncCluster,
  syncDirectory,
} from './cluster.ts';
import { othersConnected } from './connections.ts';
import { copyCluster } from './copy-cluster.ts';
import { existingHome } from './home.ts';
import { findPostmaster, type Postmaster, startPostmaster, stopPostmaster } from './postmaster.ts';
import { exclusively, isIdentityAlive, readIdentity } from './processes.ts';
import type { ServerUser } from './user.ts';

/** What an upgrade leaves beside the new database, until the old one is removed. */
const noteSchema = z.object({
  from: z.number(),
  to: z.number(),
  /** The folder of the old database. */
  kept: z.string(),
  state: z.enum(['switching', 'done']),
  /** Whether a platform has served on the new one. */
  served: z.boolean(),
  /** What the old one holds and the new one does not. */
  left: z.array(z.string()),
});
type Note = z.output<typeof noteSchema>;

const NOTE = 'postgres-upgrade.json';
const MB = 1 << 20;
/** Of a new cluster and its log of transactions. */
const NEW_CLUSTER = 192 * MB;
const STOP_MS = 60_000;
/** While both servers run they share a folder of sockets. */
const PORTS = { old: 5433, new: 5434 };

interface UpgradeOptions {
  readonly home: string;
  readonly user: ServerUser | undefined;
  readonly log: Log;
  readonly onProgress: (line: string) => void;
  readonly onNotice: (line: string) => void;
}

/**
 * Upgrades the cluster where it is older than the PostgreSQL that Troupe brings. Where that cannot be done now (no
 * space, others use it, the copy fails), says so and leaves it as it is: the old version runs on. Call it under the
 * starters' lock. Rejects EmbeddedError `other_version` where there is nothing that reads the old one.
 */
export async function upgradeCluster(options: UpgradeOptions): Promise<void> {
  const { home, user, log, onProgress, onNotice } = options;
  await finishSwitch(home);
  const dir = join(home, 'postgres');
  const [from, to] = [await clusterVersion(dir), await shippedMajor()];
  if (from === undefined || to === undefined || from >= to) return;
  const old = await findBinaries({ home, user, major: from });
  const stay = (reason: string) => {
    log.warn({ from, to, reason }, 'the database was not upgraded');
    onNotice(`The database stays on PostgreSQL ${from}: ${reason}`);
  };
  try {
    const next = await findBinaries({ home, user, major: to });
    if (!(await isFree(home, dir))) {
      stay('other processes of Troupe use it. The first start after they have stopped upgrades it.');
      return;
    }
    const needed = (await folderSize(join(dir, 'base'))) + NEW_CLUSTER;
    const { bavail, bsize } = await statfs(home);
    if (bavail * bsize < needed) {
      stay(
        `its upgrade to ${to} needs ${megabytes(needed)} at ${home}, where ${megabytes(bavail * bsize)} are free. ` +
          'Make room and start again.',
      );
      return;
    }
    onProgress(`Upgrading the database from PostgreSQL ${from} to ${to} (once)`);
    await upgrade(options, { from, to, old, next });
  } catch (error) {
    log.error({ from, to, error: errorText(error) }, 'the upgrade of the database failed');
    stay(`its upgrade to ${to} failed, and nothing was changed. ${errorText(error)}`);
  }
}

/** Whether an upgrade may have to be made or finished: what each start looks at. */
export async function mayNeedUpgrade(home: string): Promise<boolean> {
  if ((await readNote(home))?.state === 'switching') return true;
  const [from, to] = [await clusterVersion(join(home, 'postgres')), await shippedMajor()];
  return from !== undefined && to !== undefined && from < to;
}

/** A server that nobody uses any more is stopped: it was left by a process that was killed. */
async function isFree(home: string, dir: string): Promise<boolean> {
  const running = await findPostmaster(dir);
  if (running === undefined) return true;
  // One that an upgrade started serves nobody else.
  if (running.port !== PORTS.old) {
    const owner = await readIdentity(join(home, 'postgres.owner'));
    if (owner !== undefined && isIdentityAlive(owner)) return false;
    if (await othersConnected(running)) return false;
  }
  await stopPostmaster(running, dir, STOP_MS);
  return true;
}

interface Versions {
  readonly from: number;
  readonly to: number;
  readonly old: Binaries;
  readonly next: Binaries;
}

async function upgrade(options: UpgradeOptions, { from, to, old, next }: Versions): Promise<void> {
  const { home, user, log, onProgress, onNotice } = options;
  const dir = join(home, 'postgres');
  await removeUnfinished(home);
  const unfinished = await newCluster({ home, binaries: next, user });
  const startLog = join(home, 'postgres-upgrade.log');
  const common = { socketDir: await socketDirectory(home, user), user, startLog };
  const running: [Postmaster, string][] = [];
  const start = async (where: string, binaries: Binaries, settings: Readonly<Record<string, string>>) => {
    const all = { logging_collector: 'off', autovacuum: 'off', ...settings };
    const server = await startPostmaster({ ...common, dir: where, binaries, settings: all });
    running.push([server, where]);
    return server;
  };
  try {
    let left: readonly string[];
    try {
      const original = await start(dir, old, { port: String(PORTS.old) });
      const copy = await start(unfinished, next, { port: String(PORTS.new), ...UNSYNCED });
      left = await copyCluster(original, copy, onProgress);
    } finally {
      for (const [server, where] of running) await stopPostmaster(server, where, STOP_MS);
    }
    await syncCluster(unfinished, { binaries: next, user });
    const kept = await freeName(home, `postgres-${from}`);
    await putInPlace(home, unfinished, { from, to, kept, state: 'switching', served: false, left: [...left] });
    const size = megabytes(await folderSize(join(home, kept)));
    log.info({ from, to, kept: join(home, kept), size, left }, 'the database was upgraded');
    onNotice(`The database was upgraded to PostgreSQL ${to}. ${fateOf(join(home, kept), size, left)}`);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
    await rm(startLog, { force: true });
  }
}

/** The copy is written to the disk when it is whole. Rows that are loaded into a new table need no log then. */
const UNSYNCED = {
  fsync: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '128MB',
};

function fateOf(kept: string, size: string, left: readonly string[]): string {
  const where = `The old one is in ${kept} (${size})`;
  return left.length === 0
    ? `${where}; the next start that goes well removes it.`
    : `${where} and stays there, since it holds what Troupe did not make: ${left.join(', ')}. Remove it yourself.`;
}

/** Between the two renames there is no database under its name: the note tells the next start whose turn it is. */
async function putInPlace(home: string, unfinished: string, note: Note): Promise<void> {
  const dir = join(home, 'postgres');
  await writeNote(home, note);
  await rename(dir, join(home, note.kept));
  await rename(unfinished, dir);
  await syncDirectory(home);
  await writeNote(home, { ...note, state: 'done' });
}

/** After a crash between the renames the old one goes back to its place. */
async function finishSwitch(home: string): Promise<void> {
  const note = await readNote(home);
  if (note?.state !== 'switching') return;
  const dir = join(home, 'postgres');
  const found = await clusterVersion(dir);
  if (found === note.to) {
    await writeNote(home, { ...note, state: 'done' });
    return;
  }
  if (found === undefined && (await clusterVersion(join(home, note.kept))) === note.from) {
    await rename(join(home, note.kept), dir);
    await syncDirectory(home);
  }
  await rm(join(home, NOTE), { force: true });
}

/**
 * Call it when a platform serves. The second time after an upgrade, removes the old database. Never rejects: what fails
 * is logged, and tried again by the next start.
 */
export async function noteGoodStart(dataDir: string, log: Log): Promise<void> {
  const home = await existingHome(dataDir);
  if (home === undefined || (await readNote(home)) === undefined) return;
  try {
    await exclusively(join(home, 'postgres.lock'), async () => {
      const note = await readNote(home);
      if (note?.state !== 'done') return;
      if (!note.served) {
        await writeNote(home, { ...note, served: true });
        return;
      }
      if (note.left.length > 0) return;
      const kept = join(home, note.kept);
      const size = megabytes(await folderSize(kept));
      await rm(kept, { recursive: true, force: true });
      await removeCopies(home, note.from);
      await rm(join(home, NOTE), { force: true });
      log.info({ kept, size }, `the database of PostgreSQL ${note.from} was removed, since its copy serves well`);
    });
  } catch (error) {
    log.warn({ error: errorText(error) }, 'the old database could not be removed');
  }
}

/** Binaries that were copied for the old version. */
async function removeCopies(home: string, major: number): Promise<void> {
  const parent = join(home, 'postgres-bin');
  for (const name of await readdir(parent).catch(() => [])) {
    if (name.startsWith(`${major}.`)) await rm(join(parent, name), { recursive: true, force: true });
  }
}

async function freeName(home: string, wanted: string): Promise<string> {
  const names = new Set(await readdir(home));
  let name = wanted;
  for (let number = 2; names.has(name); number++) name = `${wanted}.${number}`;
  return name;
}

async function readNote(home: string): Promise<Note | undefined> {
  const text = await readFile(join(home, NOTE), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : noteSchema.parse(JSON.parse(text));
}

async function writeNote(home: string, note: Note): Promise<void> {
  const draft = join(home, `${NOTE}.part`);
  await writeFile(draft, `${JSON.stringify(note)}\n`, { mode: 0o600, flush: true });
  await rename(draft, join(home, NOTE));
  await syncDirectory(home);
}

/** Bytes on the disk of all that is in a folder. */
async function folderSize(path: string): Promise<number> {
  let size = 0;
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) size += (await stat(join(entry.parentPath, entry.name))).blocks * 512;
  return size;
}

const megabytes = (bytes: number) => `${Math.ceil(bytes / MB)} MB`;
