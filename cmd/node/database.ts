/** The database of a command: DATABASE_URL, or the server that lives under --data. */
import type { Log } from '../../proto/ports/log.ts';
import { type Db, type DbConnection, openDb } from '../../storage/db.ts';
import { EmbeddedError, startEmbedded } from '../../storage/embedded/server.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { dataDirInUse } from '../config/data-dir.ts';
import { requireUpToDate } from './schema.ts';

/** The database of the operator; undefined without DATABASE_URL. */
export function givenDatabase({ DATABASE_URL, DATABASE_DIRECT_URL }: Environment): DbConnection | undefined {
  return DATABASE_URL === undefined ? undefined : { connectionString: DATABASE_URL, direct: DATABASE_DIRECT_URL };
}

/** A server to connect to, and how to let go of it. */
interface DatabaseServer {
  readonly connection: DbConnection;
  release(): Promise<void>;
}

/** Finds or starts the server. Throws CliError that says what to do. */
export async function databaseServer(
  environment: Environment,
  dataDir: string,
  log: Log,
  onProgress: (line: string) => void,
): Promise<DatabaseServer> {
  const given = givenDatabase(environment);
  if (given !== undefined) return { connection: given, release: async () => {} };
  try {
    const server = await startEmbedded({ dataDir, log, onProgress });
    return {
      connection: server.connection,
      release: async () => {
        await server.stop();
      },
    };
  } catch (cause) {
    if (!(cause instanceof EmbeddedError)) throw cause;
    throw new CliError(
      `The database under ${dataDir} cannot be started: ${cause.message}\nGive DATABASE_URL to use a PostgreSQL ` +
        'of your own.',
      {
        cause,
      },
    );
  }
}

/**
 * Runs `work` on an up-to-date database and lets go of it. Works while the platform runs. Without DATABASE_URL the
 * folder must hold a platform: a command makes none where somebody mistyped --data. `prepare` looks at the schema.
 */
export async function withDatabase<T>(
  environment: Environment,
  dataDir: string,
  log: Log,
  work: (db: Db) => Promise<T>,
  prepare: (db: Db, log: Log) => Promise<unknown> = requireUpToDate,
): Promise<T> {
  // With a server of the operator's the folder is not looked at: it need not be there.
  const dir = environment.DATABASE_URL === undefined ? dataDirInUse(dataDir) : dataDir;
  const server = await databaseServer(environment, dir, log, () => {});
  const db = openDb(server.connection, { log, name: 'cli', max: 2 });
  try {
    await prepare(db, log);
    return await work(db);
  } finally {
    await db.close();
    await server.release();
  }
}
