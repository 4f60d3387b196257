/** `troupe database url|shell|dump`: the database for PostgreSQL's own programs, while the platform runs or not. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { z } from 'zod';
import { type DbConnection, directly, openDb } from '../../storage/db.ts';
import { findEmbedded } from '../../storage/embedded/find.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { dataDirInUse } from '../config/data-dir.ts';
import { hint } from '../config/hints.ts';
import { databaseServer } from '../node/database.ts';
import { openLog } from '../observability/log.ts';
import type { CommandOptions } from './command.ts';
import { postgresProgram } from './postgres-programs.ts';

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
    const row = await db
      .one(z.object({ version: z.string() }), "select current_setting('server_version_num') as version")
      .finally(() => db.close());
    await work(connection, Math.floor(Number(row?.version ?? 0) / 10_000));
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
