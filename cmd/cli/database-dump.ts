/** `troupe database dump` and `restore`: all of the database as a file. No program of PostgreSQL is needed. */
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { errorText, isCode } from '../../lib/errors.ts';
import { dumpScript, restoreScript } from '../../storage/copy/files.ts';
import { CopyError } from '../../storage/copy/parts.ts';
import { type DbConnection, directly } from '../../storage/db.ts';
import { MigrationError } from '../../storage/migrate.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { dataDirInUse, openDataDir } from '../config/data-dir.ts';
import { hint } from '../config/program.ts';
import { databaseServer, sayToPerson } from '../node/database.ts';
import { openLog } from '../observability/log.ts';
import type { CommandOptions } from './command.ts';

const GZIP = Buffer.from([0x1f, 0x8b]);

/**
 * Writes all of the database as it is at one moment to `file` (which is there whole or not at all; compressed where its
 * name ends with .gz), or to standard output. It holds secrets, though sealed ones: the file is its owner's alone.
 * Throws CliError.
 */
export async function databaseDump(file: string | undefined, { data }: CommandOptions): Promise<void> {
  if (file === undefined && process.stdout.isTTY)
    throw new CliError(`A dump is long: name a file, ${hint('database dump troupe.dump.gz', data)}.`);
  const { DATABASE_URL } = readEnvironment(process.env);
  await onServer(DATABASE_URL === undefined ? dataDirInUse(data) : data, async (connection) => {
    if (file === undefined) {
      for await (const chunk of dumpScript(connection))
        if (!process.stdout.write(chunk)) await once(process.stdout, 'drain');
      return;
    }
    const draft = `${file}.part`;
    try {
      const output = createWriteStream(draft, { mode: 0o600 });
      if (file.endsWith('.gz')) await pipeline(dumpScript(connection), createGzip(), output);
      else await pipeline(dumpScript(connection), output);
      const written = await open(draft, 'r');
      await written.sync();
      await written.close();
      await rename(draft, file);
    } finally {
      await rm(draft, { force: true });
    }
    process.stderr.write(
      `Wrote ${file}. Keep jwt-secret and encryption-key of ${data} with it: without them its secrets cannot be ` +
        `read.\n`,
    );
  });
}

/** Options as the command line gives them. */
interface RestoreOptions extends CommandOptions {
  readonly replace: boolean;
}

/** Makes the database from a file of `databaseDump`, all of it or nothing. Throws CliError. */
export async function databaseRestore(file: string, { data, replace }: RestoreOptions): Promise<void> {
  await onServer(openDataDir(data), async (connection) => {
    const rows = await restoreScript(connection, await contentOf(file), { replace });
    process.stdout.write(`Restored ${rows} rows. The next start of the platform brings the schema up to date.\n`);
  });
}

/** What the file holds, whether it is compressed or not. */
async function contentOf(file: string): Promise<AsyncIterable<Buffer>> {
  const handle = await open(file, 'r').catch((cause: unknown) => {
    if (isCode(cause, 'ENOENT')) throw new CliError(`There is no file ${file}.`, { cause });
    throw new CliError(`${file} cannot be read: ${errorText(cause)}`, { cause });
  });
  const { buffer } = await handle.read(Buffer.alloc(GZIP.length), 0, GZIP.length, 0).finally(() => handle.close());
  const input = createReadStream(file);
  if (!buffer.equals(GZIP)) return input;
  const unpacked = createGunzip();
  input.on('error', (error) => unpacked.destroy(error));
  return input.pipe(unpacked);
}

/** Starts the server for the time of `work` where it does not run. */
async function onServer(dir: string, work: (connection: DbConnection) => Promise<void>): Promise<void> {
  const environment = readEnvironment(process.env);
  const log = openLog(environment.LOG_LEVEL ?? 'error');
  const server = await databaseServer(environment, dir, log, () => {}, sayToPerson);
  try {
    await work(directly(server.connection));
  } catch (error) {
    if (error instanceof CliError) throw error;
    const isSaid = error instanceof CopyError || error instanceof MigrationError;
    throw new CliError(isSaid ? error.message : `The database refused: ${errorText(error)}`, { cause: error });
  } finally {
    await server.release();
  }
}
