/** Connections to a server of our own, for what concerns all of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { CLUSTER_USER } from './cluster.ts';

/** The one database of a server. */
export const DATABASE = 'troupe';

/** Where the server takes connections; handed to `openDb`. */
export interface EmbeddedConnection {
  readonly socketDir: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
}

type ServerAddress = Pick<EmbeddedConnection, 'socketDir' | 'port'>;

async function withClient<T>(
  { socketDir, port }: ServerAddress,
  databaseName: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    host: socketDir,
    port,
    user: CLUSTER_USER,
    database: databaseName,
    application_name: 'troupe-embedded',
    connectionTimeoutMillis: 10_000,
  });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Makes the one database of a server where it is missing. */
export async function createDatabase(connection: ServerAddress): Promise<void> {
  await withClient(connection, 'postgres', async (client) => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [DATABASE]);
    if (rowCount === 1) return;
    await client.query(`create database ${DATABASE}`).catch((error: unknown) => {
      // 42P04, or 23505 when the two ran at the very same time: another starter made it.
      const raced = error instanceof pg.DatabaseError && (error.code === '42P04' || error.code === '23505');
      if (!raced) throw error;
    });
  });
}

/** Whether other troupe processes hold connections. Ours, closed a moment ago, take a moment to disappear. */
export async function othersConnected(connection: ServerAddress): Promise<boolean> {
  return withClient(connection, 'postgres', async (client) => {
    for (let attempt = 0; attempt < 10; attempt++) {
      const { rowCount } = await client.query(
        "select from pg_stat_activity where application_name like 'troupe/%' and pid <> pg_backend_pid() limit 1",
      );
      if (rowCount === 0) return false;
      await sleep(50);
    }
    return true;
  });
}
