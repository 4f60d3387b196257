import { randomUUID } from 'node:crypto';
import { chmod, mkdir, open, readFile, realpath, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isCode } from '../../lib/errors.ts';
import type { Log } from '../../proto/ports/log.ts';
import { closedDirectory, EmbeddedError, makeParents, type ServerUser } from './user.ts';

/** Where databases go whose data directory the server's account cannot reach. */
const ELSEWHERE = '/var/lib/troupe-postgres';

/**
 * The directory that holds the server's files: the data directory, made with every missing parent such that the
 * server's account can pass through (not list). When something closed that is not ours is in the way (as with a data
 * directory below /root), a directory under /var/lib is used instead, whose name the data directory keeps in
 * `postgres-place`. Resolves with a path without symbolic links.
 */
export async function serverHome(dataDir: string, user: ServerUser | undefined, log: Log): Promise<string> {
  await makeParents(dataDir);
  const path = await realpath(dataDir);
  if (user === undefined) return path;
  const chosen = await readFile(join(path, 'postgres-place'), 'utf8').catch(() => undefined);
  if (chosen === undefined) {
    await openWay(path, user);
    const closed = await closedDirectory(path, user);
    if (closed === undefined) return path;
    log.warn({ account: user.name, closed }, `the database is kept under ${ELSEWHERE}: its account may not enter`);
  }
  const home = join(ELSEWHERE, chosen?.trim() ?? (await choosePlace(path)));
  await makeParents(home);
  const closed = await closedDirectory(home, user);
  if (closed === undefined) return home;
  throw new EmbeddedError(
    'unreachable',
    `The database runs as ${user.name}, which may not enter ${closed}. Use another --data directory, or: chmod ` +
      `o+x ${closed}`,
  );
}

/** Lets the account pass through the data directory itself, and through private temporary folders it lies in. */
async function openWay(path: string, user: ServerUser): Promise<void> {
  const temporary = `${await realpath(tmpdir())}/`;
  for (;;) {
    const closed = await closedDirectory(path, user);
    if (closed === undefined || (closed !== path && !closed.startsWith(temporary))) return;
    const { mode, uid } = await stat(closed);
    if (uid !== process.getuid?.()) return;
    await chmod(closed, (mode & 0o7777) | 0o011);
    // A file system that ignores modes would keep us here.
    if ((await closedDirectory(path, user)) === closed) return;
  }
}

/** Writes the name of a new place down before it is used; of two at once the first counts for both. */
async function choosePlace(dataDir: string): Promise<string> {
  const file = join(dataDir, 'postgres-place');
  await mkdir(ELSEWHERE, { recursive: true, mode: 0o711 });
  try {
    const handle = await open(file, 'wx', 0o600);
    await handle.writeFile(randomUUID());
    await handle.sync();
    await handle.close();
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error;
  }
  const name = (await readFile(file, 'utf8')).trim();
  if (/^[0-9a-f-]{36}$/.test(name)) return name;
  throw new EmbeddedError(
    'unreachable',
    `${file} does not hold the name of a place. Remove it when the database is new.`,
  );
}

/** The directory of a data directory's server, changing nothing; undefined when there is no such data directory. */
export async function existingHome(dataDir: string): Promise<string | undefined> {
  const path = await realpath(dataDir).catch(() => undefined);
  if (path === undefined) return undefined;
  const place = await readFile(join(path, 'postgres-place'), 'utf8').catch(() => undefined);
  return place === undefined ? path : join(ELSEWHERE, place.trim());
}
