/** PostgreSQL's client programs on this machine: they come with Debian's postgresql-client, not with Troupe. */
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { isExecutable } from '../../lib/executable.ts';
import { CliError } from '../config/cli-error.ts';

/** Where Debian and Ubuntu put each major version. */
const VERSIONS_DIR = '/usr/lib/postgresql';

/**
 * The path of a program that is as new as the server, or newer: pg_dump refuses a server that is newer than itself (its
 * manual, "Notes"). Throws CliError that says what to install.
 */
export async function postgresProgram(
  name: 'pg_dump' | 'psql',
  serverMajor: number,
  folders: readonly string[] = usualFolders(),
): Promise<string> {
  let newest = 0;
  for (const path of folders.map((folder) => join(folder, name)).filter(isExecutable)) {
    const major = await majorOf(path);
    if (major >= serverMajor) return path;
    newest = Math.max(newest, major);
  }
  const what =
    newest === 0
      ? `There is no ${name} on this machine`
      : `${name} on this machine is of version ${newest}, older than the server (${serverMajor})`;
  const which = newest === 0 ? 'postgresql-client' : `postgresql-client-${serverMajor}`;
  throw new CliError(`${what}: apt-get install ${which}`);
}

async function majorOf(path: string): Promise<number> {
  const { stdout } = await promisify(execFile)(path, ['--version'], { env: { PATH: '/usr/bin:/bin' } });
  return Number(/\(PostgreSQL\) ([0-9]+)/.exec(stdout)?.[1] ?? 0);
}

function usualFolders(): string[] {
  let versions: string[] = [];
  try {
    versions = readdirSync(VERSIONS_DIR).sort((a, b) => Number(b) - Number(a));
  } catch {
    // No version is installed there.
  }
  const onPath = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return [...versions.map((version) => join(VERSIONS_DIR, version, 'bin')), ...onPath];
}
