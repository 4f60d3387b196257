import { createHash, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { type Db, openDb } from '../../../storage/db.ts';
import { startEmbedded } from '../../../storage/embedded/server.ts';
import { migrate, migrationsDir, readMigrations } from '../../../storage/migrate.ts';
import { SERVICES, type ServiceWithRole } from '../../../storage/rights.ts';
import { roleOf, rolesSql } from '../../../storage/roles.ts';
import { guard } from '../guard.ts';
import { silentLog } from '../log.ts';
import { emptied, type Pristine, pristineOf } from './emptying.ts';

/** The connection of one database, in the shape `openDb` takes. */
export interface TestConnection {
  readonly socketDir: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
}

export interface TestDatabase {
  readonly db: Db;
  readonly connection: TestConnection;
  /** The same as a URL, for children that take DATABASE_URL. */
  readonly url: string;
  /** Makes roles for the services that run alone, which log in to this database and go with it. */
  serviceRoles(): Promise<ServiceRoles>;
  /** Closes `db`, ends connections of others to the database, and leaves it, emptied, to a later test. Idempotent. */
  close(): Promise<void>;
}

export interface ServiceRoles {
  /** Of their names. */
  readonly prefix: string;
  /** Gives them their rights anew. */
  apply(): Promise<void>;
  /** As whom a service logs in. */
  connectionOf(service: ServiceWithRole): TestConnection;
  /** The same as a URL. */
  urlOf(service: ServiceWithRole): string;
}

/** A server for tests, not durable, in a temporary folder that goes with it. */
export interface TestServer {
  readonly socketDir: string;
  stop(): Promise<void>;
}

const variable = 'TROUPE_TEST_PG';
/** A version other than the one that Troupe brings, for the servers of tests. */
const majorVariable = 'TROUPE_TEST_PG_MAJOR';

/**
 * Starts a server, with `more` settings if given. The runner puts its `socketDir` into TROUPE_TEST_PG of the test processes, so that they
 * share it. When this process dies, however, the server and its folder go too.
 */
export async function startTestServer(more: Readonly<Record<string, string>> = {}): Promise<TestServer> {
  const dir = await mkdtemp(join(tmpdir(), 'troupe-pg-'));
  const endGuard = guard(
    [
      'pid=$(head -n 1 "$1/postgres/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null && sleep 1',
      'rm -rf "$1"',
    ],
    dir,
  );
  const major = Number(process.env[majorVariable] ?? '');
  const server = await startEmbedded({
    dataDir: dir,
    log: silentLog,
    ...(major > 0 ? { major } : {}),
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', logging_collector: 'off', ...more },
  });
  return {
    socketDir: server.connection.socketDir,
    async stop() {
      await server.stop({ force: true });
      await rm(dir, { recursive: true, force: true });
      endGuard();
    },
  };
}

let own: Promise<TestServer> | undefined;
/** By the folder of their server's socket: a process may use several. */
const templates = new Map<string, Promise<string>>();

// Only in a test's own process: elsewhere a root hook would make a test run of it.
if (/\.test\.[cm]?[jt]s$/.test(process.argv[1] ?? '')) {
  after(async () => {
    await (await own)?.stop();
  });
}

/** Where databases are made: the runner's server, else one of this process, stopped after its last test. */
async function serverSocket(): Promise<string> {
  const shared = process.env[variable];
  if (shared !== undefined && shared !== '') return shared;
  own ??= startTestServer();
  return (await own).socketDir;
}

/** Databases that tests of this process have used, emptied, by their server. */
const free = new Map<string, string[]>();
const pristine = new Map<string, Promise<Pristine>>();

/** An empty database with the current schema, for this test alone. */
export async function testDatabase(): Promise<TestDatabase> {
  const socketDir = await serverSocket();
  const address = (database: string): TestConnection => ({ socketDir, port: 5432, user: 'troupe', database });
  const name = free.get(socketDir)?.pop() ?? (await newDatabase(address));
  const connection = address(name);
  const known = pristine.get(socketDir) ?? withAdmin(connection, pristineOf);
  pristine.set(socketDir, known);
  const untouched = await known;
  const db = openDb(connection, { log: silentLog, name: 'test' });
  // Roles are the server's, which others use at the same time.
  const prefix = name.slice(0, 24);
  const roles = SERVICES.map((service) => roleOf(service, prefix));
  const connectionOf = (service: ServiceWithRole) => ({ ...connection, user: roleOf(service, prefix) });
  let hasRoles = false;
  let closed: Promise<void> | undefined;
  return {
    db,
    connection,
    url: urlOf(connection),
    serviceRoles: async () => {
      hasRoles = true;
      const apply = () => db.tx((tx) => tx.script(rolesSql(SERVICES, prefix)));
      await apply();
      await db.script(roles.map((role) => `alter role ${role} login;`).join('\n'));
      return { prefix, apply, connectionOf, urlOf: (service) => urlOf(connectionOf(service)) };
    },
    close() {
      closed ??= (async () => {
        await db.close();
        const isEmpty = !hasRoles && (await withAdmin(connection, (admin) => emptied(admin, untouched)));
        if (isEmpty) {
          free.set(socketDir, [...(free.get(socketDir) ?? []), name]);
          return;
        }
        await withAdmin(address('postgres'), async (admin) => {
          await admin.run(`drop database if exists ${name} with (force)`);
          if (hasRoles) await admin.run(`drop role if exists ${roles.join(', ')}`);
        });
      })();
      return closed;
    },
  };
}

/** A copy of a template that is migrated once per server and set of migrations. Its name. */
async function newDatabase(address: (database: string) => TestConnection): Promise<string> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await withAdmin(address('postgres'), async (admin) => {
    const { socketDir } = address('postgres');
    const template = templates.get(socketDir) ?? ensureTemplate(admin, address);
    templates.set(socketDir, template);
    const source = await template;
    await admin.run(`create database ${name} template ${source}`);
  });
  return name;
}

function urlOf({ socketDir, user, database }: TestConnection): string {
  return `postgresql://${user}@/${database}?host=${encodeURIComponent(socketDir)}`;
}

async function withAdmin<T>(connection: TestConnection, work: (admin: Db) => Promise<T>): Promise<T> {
  const admin = openDb(connection, { log: silentLog, name: 'test-admin', max: 2 });
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}

async function ensureTemplate(admin: Db, address: (database: string) => TestConnection): Promise<string> {
  const migrations = await readMigrations();
  const hash = createHash('sha256').update(migrations.map(({ checksum }) => checksum).join());
  const name = `template_${hash.digest('hex').slice(0, 16)}`;
  // Test processes share the server: one makes the template, the others wait.
  await admin.tx(async (tx) => {
    await tx.run('select pg_advisory_xact_lock(7274002)');
    if ((await tx.run('select from pg_database where datname = $1', [name])) === 1) return;
    await admin.run(`drop database if exists ${name}_new with (force)`);
    await admin.run(`create database ${name}_new`);
    await withAdmin(address(`${name}_new`), (db) => migrate(db, migrationsDir, silentLog));
    // A template is complete once it has its name.
    await admin.run(`alter database ${name}_new rename to ${name}`);
  });
  return name;
}
