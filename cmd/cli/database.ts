/**
 * `troupe migrate`, and `troupe database`: the database for PostgreSQL's own programs, and a role for each service that
 * runs alone.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { isExecutable } from '../../lib/executable.ts';
import { type Db, type DbConnection, directly, openDb, StorageError } from '../../storage/db.ts';
import { findEmbedded } from '../../storage/embedded/server.ts';
import { textRow } from '../../storage/queries.ts';
import { SERVICES, type ServiceWithRole } from '../../storage/rights.ts';
import { roleOf, rolesSql, rolesThatLogIn } from '../../storage/roles.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { dataDirInUse } from '../config/data-dir.ts';
import { hint } from '../config/program.ts';
import { bringUpToDate, databaseServer } from '../node/database.ts';
import { openLog } from '../observability/log.ts';
import { type CommandOptions, onDatabase } from './command.ts';

/** Prints the address of the database as libpq takes it. Throws CliError when its server does not run. */
export async function databaseUrl({ data }: CommandOptions): Promise<void> {
  const { DATABASE_URL, DATABASE_DIRECT_URL } = readEnvironment(process.env);
  let url = DATABASE_DIRECT_URL ?? DATABASE_URL;
  if (url === undefined) {
    const found = await findEmbedded(dataDirInUse(data));
    if (found?.connection === undefined)
      throw new CliError(
        `The database runs while Troupe does. Start it with ${hint('up', data)}; ${hint('database shell', data)} and ` +
          `${hint('database dump', data)} start the database themselves.`,
      );
    url = urlOf(found.connection);
  }
  process.stdout.write(`${url}\n`);
}

/** Runs psql at this terminal, with `args` if given. Its exit code becomes ours. */
export function databaseShell(args: readonly string[], { data }: CommandOptions): Promise<void> {
  return onServer(data, async (connection, major) => {
    process.exitCode = await run(await postgresProgram('psql', major), args, connection, 'inherit');
  });
}

/**
 * Writes all of the database as it is at one moment, in the form that pg_restore takes, to `file` (which is there whole
 * or not at all), or to standard output. It holds secrets, though sealed ones: the file is its owner's alone. Throws
 * CliError.
 */
export async function databaseDump(file: string | undefined, { data }: CommandOptions): Promise<void> {
  if (file === undefined && process.stdout.isTTY)
    throw new CliError(`A dump is no text for a terminal: name a file, ${hint('database dump troupe.dump', data)}.`);
  await onServer(data, async (connection, major) => {
    const program = await postgresProgram('pg_dump', major);
    const args = ['--format=custom', '--no-owner', '--no-privileges'];
    if (file === undefined) {
      const code = await run(program, args, connection, 'inherit');
      if (code !== 0) throw new CliError('pg_dump failed: what it wrote is not whole.');
      return;
    }
    const draft = `${file}.part`;
    const open = openSync(draft, 'w', 0o600);
    try {
      const code = await run(program, args, connection, open);
      if (code !== 0) throw new CliError(`pg_dump failed: ${file} was not written.`);
      fsyncSync(open);
      renameSync(draft, file);
    } finally {
      closeSync(open);
      rmSync(draft, { force: true });
    }
    process.stderr.write(
      `Wrote ${file}. Keep jwt-secret and encryption-key of ${data} with it: without them its secrets cannot be ` +
        `read.\n`,
    );
  });
}

/** Starts the server for the time of `work` where it does not run. `major` is its version. */
async function onServer(data: string, work: (connection: DbConnection, major: number) => Promise<void>): Promise<void> {
  const environment = readEnvironment(process.env);
  const log = openLog(environment.LOG_LEVEL ?? 'error');
  const dir = environment.DATABASE_URL === undefined ? dataDirInUse(data) : data;
  const server = await databaseServer(environment, dir, log, () => {});
  const connection = directly(server.connection);
  try {
    const db = openDb(connection, { log, name: 'database', max: 1 });
    const version = await db.one(textRow, "select current_setting('server_version_num')").finally(() => db.close());
    await work(connection, Math.floor(Number(version ?? 0) / 10_000));
  } finally {
    await server.release();
  }
}

/** Resolves with the exit code, 1 for a signal. Ctrl-C is the program's: the server must be let go of before we end. */
async function run(
  program: string,
  args: readonly string[],
  connection: DbConnection,
  output: 'inherit' | number,
): Promise<number> {
  const { url, password } = withoutPassword(
    'connectionString' in connection ? connection.connectionString : urlOf(connection),
  );
  const ignore = () => {};
  process.on('SIGINT', ignore);
  try {
    const child = spawn(program, [...args, `--dbname=${url}`], {
      stdio: ['inherit', output, 'inherit'],
      // The platform's own connections are named so: who stops it leaves the server to us.
      env: { ...process.env, PGAPPNAME: 'troupe/dump', ...(password === undefined ? {} : { PGPASSWORD: password }) },
    });
    const [code] = await once(child, 'exit');
    return typeof code === 'number' ? code : 1;
  } finally {
    process.off('SIGINT', ignore);
  }
}

/** A password has no place in the list of processes. */
function withoutPassword(url: string): { url: string; password: string | undefined } {
  const [, before = '', password, after = ''] = /^([a-z]+:\/\/[^@/?:]*):([^@/?]*)(@.*)$/s.exec(url) ?? [];
  return password === undefined ? { url, password } : { url: before + after, password: decodeURIComponent(password) };
}

/** A socket's folder goes into the query (PostgreSQL's manual, "Connection URIs"). */
function urlOf({ socketDir, port = 5432, user, database }: Extract<DbConnection, { socketDir: string }>): string {
  return `postgresql://${user}@/${database}?host=${encodeURIComponent(socketDir)}&port=${port}`;
}

interface RolesOptions {
  readonly data: string;
  readonly apply: boolean;
  readonly prefix: string;
}

/** insufficient_privilege */
const FORBIDDEN = '42501';

/**
 * Prints the SQL for `services` (none: all), or runs it in one transaction and says who may not log in yet. Throws
 * CliError when the user of the database may make no roles.
 */
export async function databaseRoles(
  services: readonly ServiceWithRole[],
  { data, apply, prefix }: RolesOptions,
): Promise<void> {
  const chosen = services.length === 0 ? SERVICES : SERVICES.filter((service) => services.includes(service));
  const sql = rolesSql(chosen, prefix);
  if (!apply) {
    process.stdout.write(`begin;\n${sql}\ncommit;\n`);
    return;
  }
  const roles = chosen.map((service) => roleOf(service, prefix));
  const make = async (db: Db) => {
    try {
      await db.tx((tx) => tx.script(sql));
    } catch (cause) {
      if (!(cause instanceof StorageError) || cause.sqlState !== FORBIDDEN) throw cause;
      throw new CliError(
        `${cause.message}: nothing was changed. Have a superuser of the server run what ` +
          `${hint('database roles', data)} prints, or make the roles before (${roles.join(', ')}).`,
        { cause },
      );
    }
    return rolesThatLogIn(db, roles);
  };
  // The rights are of this version's schema.
  const ready = await onDatabase({ data }, make, bringUpToDate);
  const waiting = roles.filter((role) => !ready.includes(role));
  const lines = [`${roles.join(', ')}: each has the rights of its service, and no others.`];
  const [first] = waiting;
  if (first !== undefined)
    lines.push(
      `No login yet: ${waiting.join(', ')}. Give each a password in ${hint('database shell', data)}:`,
      `  alter role ${first} login;`,
      `  \\password ${first}`,
    );
  process.stdout.write(`${lines.join('\n')}\n`);
}

/** Applies the migrations that are missing. Throws CliError as `bringUpToDate`. */
export async function migrateDatabase(options: { readonly data: string }): Promise<void> {
  await onDatabase(options, (db) => db.ping(), bringUpToDate);
  process.stdout.write('The database is up to date.\n');
}

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
