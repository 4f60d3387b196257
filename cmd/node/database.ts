/**
 * The database of a command: DATABASE_URL, or the server that lives under --data; and its schema, which is never
 * changed under processes that this version could not run beside.
 */
import type { Log } from '../../proto/ports/log.ts';
import { NODE_FORMAT } from '../../proto/ports/placement.ts';
import { type Db, type DbConnection, openDb } from '../../storage/db.ts';
import { EmbeddedError, startEmbedded } from '../../storage/embedded/server.ts';
import { MigrationError, migrate, migrationsDir, schemaVersion } from '../../storage/migrate.ts';
import { oddNode } from '../../storage/placement/nodes.ts';
import type { ServiceWithRole } from '../../storage/rights.ts';
import { missingRight } from '../../storage/roles.ts';
import { OLDEST_MAJOR, serverMajor } from '../../storage/server-version.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { dataDirInUse } from '../config/data-dir.ts';
import { version } from '../config/program.ts';

/** The database of the operator; undefined without DATABASE_URL. */
export function givenDatabase({ DATABASE_URL, DATABASE_DIRECT_URL }: Environment): DbConnection | undefined {
  return DATABASE_URL === undefined ? undefined : { connectionString: DATABASE_URL, direct: DATABASE_DIRECT_URL };
}

/** A server to connect to, and how to let go of it. */
interface DatabaseServer {
  readonly connection: DbConnection;
  release(): Promise<void>;
}

/**
 * Finds or starts the server. `onNotice` gets what a person should find on the screen afterwards, too. Throws CliError
 * that says what to do.
 */
export function databaseServer(
  environment: Environment,
  dataDir: string,
  log: Log,
  onProgress: (line: string) => void,
  onNotice: (line: string) => void = onProgress,
): Promise<DatabaseServer> {
  return startDatabase(environment, dataDir, log, onProgress, onNotice).server;
}

/**
 * The same for who has other work meanwhile: `begun` resolves once the server only needs time, or cannot be had. It
 * never rejects; `server` says why.
 */
export function startDatabase(
  environment: Environment,
  dataDir: string,
  log: Log,
  onProgress: (line: string) => void,
  onNotice: (line: string) => void,
): { readonly begun: Promise<void>; readonly server: Promise<DatabaseServer> } {
  const given = givenDatabase(environment);
  if (given !== undefined) {
    const server = Promise.resolve({ connection: given, release: async () => {} });
    return { begun: Promise.resolve(), server };
  }
  let onBegun = () => {};
  const begun = new Promise<void>((resolve) => {
    onBegun = resolve;
  });
  const server = embeddedServer({ dataDir, log, onProgress, onNotice, onBegun });
  server.then(onBegun, onBegun);
  return { begun, server };
}

async function embeddedServer(options: Parameters<typeof startEmbedded>[0]): Promise<DatabaseServer> {
  const { dataDir } = options;
  try {
    const server = await startEmbedded(options);
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
  const server = await databaseServer(environment, dir, log, () => {}, sayToPerson);
  const db = openDb(server.connection, { log, name: 'cli', max: 2 });
  try {
    await prepare(db, log);
    return await work(db);
  } finally {
    await db.close();
    await server.release();
  }
}

/** A sentence on standard error: standard output is the command's answer. */
export const sayToPerson = (line: string): void => void process.stderr.write(`${line}\n`);

/** Names the node that keeps this version out, and what to do. Logs it. */
export function unreadable(node: { address: string; version: string; format: number }, log: Log): CliError {
  const { address, version: theirs, format } = node;
  log.error({ address, version: theirs, format }, 'refused: a living node speaks another format');
  return new CliError(
    `The node at ${address} (version ${theirs}) speaks format ${format} with other nodes, this version ` +
      `(${version}) only ${NODE_FORMAT}: ` +
      'run a version that speaks both, or stop all others first (docs/reference/operations.md).',
  );
}

/**
 * Applies the migrations that are missing and returns their names. Throws CliError, and changes nothing, when some are
 * missing while a node lives that speaks another format of messages: this version cannot join it, and it could not
 * start again on the new schema. And when the role of DATABASE_URL may not apply them. `former` is the node that this
 * process takes the place of. Rejects with MigrationError as `migrate`.
 */
export async function bringUpToDate(db: Db, log: Log, former?: string): Promise<string[]> {
  refuseOldServer(await serverMajor(db));
  const { has, knows, isBehind } = await schemaVersion(db);
  if (isBehind) await refuseBesideOddNodes(db, log, former);
  try {
    return await migrate(db, migrationsDir, log);
  } catch (cause) {
    if (!(cause instanceof MigrationError) || cause.code !== 'forbidden') throw cause;
    throw new CliError(
      `The database has ${has} of ${knows} migrations, and the role of DATABASE_URL may not apply the others. Run ` +
        '`troupe migrate` with the DATABASE_URL of its owner first (docs/reference/database-roles.md).',
      { cause },
    );
  }
}

/** Throws CliError for a server on which statements of Troupe do not run. */
export function refuseOldServer(major: number): void {
  if (major >= OLDEST_MAJOR) return;
  throw new CliError(
    `The server of DATABASE_URL is PostgreSQL ${major}; Troupe needs ${OLDEST_MAJOR} or newer. Upgrade that server, ` +
      'or start without DATABASE_URL: Troupe then runs its own.',
  );
}

async function refuseBesideOddNodes(db: Db, log: Log, former?: string): Promise<void> {
  const odd = await oddNode(db, NODE_FORMAT, former);
  if (odd !== undefined) throw unreadable(odd, log);
}

/**
 * Throws CliError when migrations are missing, and what applies them: a command that lists users is no upgrade. An
 * empty database is filled, so that the first user can be added before the platform starts.
 */
async function requireUpToDate(db: Db, log: Log): Promise<void> {
  const { has, knows, isBehind } = await schemaVersion(db);
  if (!isBehind) {
    await bringUpToDate(db, log);
    return;
  }
  await refuseBesideOddNodes(db, log);
  throw new CliError(
    `The database has ${has} of the ${knows} migrations of this version. The next start of the platform applies the ` +
      'others, and so does `troupe migrate`.',
  );
}

/** Throws CliError when whoever is logged in may not do all that `service` does. After `bringUpToDate`. */
export async function refuseWithoutRights(db: Db, service: ServiceWithRole): Promise<void> {
  const lack = await missingRight(db, service);
  if (lack === undefined) return;
  throw new CliError(
    `The database role ${lack.role} lacks rights that \`troupe ${service}\` needs: ${lack.missing}. Run \`troupe ` +
      'database roles --apply` with the DATABASE_URL of the owner (docs/reference/database-roles.md).',
  );
}
