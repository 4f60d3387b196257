/**
 * `troupe migrate`, and `troupe database`: the database for PostgreSQL's own programs, and a role for each service that
 * runs alone.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { isExecutable } from '../../lib/executable.ts';
import { type Db, type DbConnection, directly, StorageError } from '../../storage/db.ts';
import { findEmbedded } from '../../storage/embedded/server.ts';
import { SERVICES, type ServiceWithRole } from '../../storage/rights.ts';
import { roleOf, rolesSql, rolesThatLogIn } from '../../storage/roles.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { dataDirInUse } from '../config/data-dir.ts';
import { hint } from '../config/program.ts';
import { bringUpToDate, databaseServer, sayToPerson } from '../node/database.ts';
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

/** Runs psql at this terminal, with `args` if given. Its exit code becomes ours. The server runs meanwhile. */
export async function databaseShell(args: readonly string[], { data }: CommandOptions): Promise<void> {
  const program = psql();
  const environment = readEnvironment(process.env);
  const log = openLog(environment.LOG_LEVEL ?? 'error');
  const dir = environment.DATABASE_URL === undefined ? dataDirInUse(data) : data;
  const server = await databaseServer(environment, dir, log, () => {}, sayToPerson);
  try {
    process.exitCode = await run(program, args, directly(server.connection));
  } finally {
    await server.release();
  }
}

/** Resolves with the exit code, 1 for a signal. Ctrl-C is the program's: the server must be let go of before we end. */
async function run(program: string, args: readonly string[], connection: DbConnection): Promise<number> {
  const { url, password } = withoutPassword(
    'connectionString' in connection ? connection.connectionString : urlOf(connection),
  );
  const ignore = () => {};
  process.on('SIGINT', ignore);
  try {
    const child = spawn(program, [...args, `--dbname=${url}`], {
      stdio: 'inherit',
      // The platform's own connections are named so: who stops it leaves the server to us.
      env: { ...process.env, PGAPPNAME: 'troupe/shell', ...(password === undefined ? {} : { PGPASSWORD: password }) },
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
function urlOf({
  socketDir,
  port = 5432,
  user,
  database,
}: {
  socketDir: string;
  port?: number;
  user: string;
  database: string;
}): string {
  return `postgresql://${user}@/${database}?host=${encodeURIComponent(socketDir)}&port=${port}`;
}

/** Options as the command line gives them. */
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

/** The newest psql of this machine. One that is older than the server works as well. Throws CliError. */
export function psql(folders: readonly string[] = usualFolders()): string {
  const path = folders.map((folder) => join(folder, 'psql')).find(isExecutable);
  if (path === undefined) throw new CliError('There is no psql on this machine: apt-get install postgresql-client');
  return path;
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
