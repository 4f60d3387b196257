/** A database as a script of SQL, and a script as a database. */
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { z } from 'zod';
import type { DbConnection } from '../db.ts';
import { dumpDatabase, rowsOf } from './dump.ts';
import { CopyError, loadParts, openClient } from './parts.ts';
import { readScript, writeScript } from './script.ts';

/** All of the database as it is at one moment. Rejects CopyError `empty`, MigrationError `newer` or `changed`. */
export async function* dumpScript(connection: DbConnection): AsyncGenerator<Buffer> {
  const client = await openClient(connection, 'dump');
  try {
    yield* writeScript(dumpDatabase(client));
  } finally {
    await client.end();
  }
}

const WAITS = 10;
const presentRow = z.object({ tables: z.number(), users: z.number() });

/**
 * Makes the database of a script, all of it or nothing, and resolves with the number of rows. What is there already is
 * replaced with `replace` only. Rejects CopyError: `in_use`, `not_empty`, and those of `readScript`.
 */
export async function restoreScript(
  connection: DbConnection,
  source: AsyncIterable<Buffer>,
  { replace }: { readonly replace: boolean },
): Promise<number> {
  const client = await openClient(connection, 'restore');
  try {
    await client.query('begin');
    await refuseUsed(client, replace);
    await client.query('drop schema public cascade; create schema public; set local search_path to public');
    const rows = await loadParts(client, readScript(source));
    await client.query('commit');
    await client.query('analyze');
    return rows;
  } finally {
    await client.end();
  }
}

async function refuseUsed(client: pg.Client, replace: boolean): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const [found] = await rowsOf(
      client,
      presentRow,
      `select (select count(*)::int from pg_class where relnamespace = 'public'::regnamespace) as tables,
         (select count(*)::int from pg_stat_activity where datname = current_database()
            and application_name like 'troupe/%' and pid <> pg_backend_pid()) as users,
         pg_stat_clear_snapshot()`,
    );
    if ((found?.tables ?? 0) > 0 && !replace)
      throw new CopyError('not_empty', 'The database is not empty: --replace removes what it holds before.');
    if (found?.users === 0) return;
    if (attempt === WAITS)
      throw new CopyError('in_use', 'Processes of Troupe use the database: stop the platform first.');
    // A connection that was closed a moment ago takes a moment to disappear.
    await sleep(100);
  }
}
