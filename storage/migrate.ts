import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { CodedError, errorText } from '../lib/errors.ts';
import { packageFile } from '../lib/package-file.ts';
import type { Log } from '../proto/ports/log.ts';
import type { Db } from './db.ts';
import { StorageError } from './errors.ts';
import type { Queries, Tx } from './queries.ts';
import { oneValue } from './rows.ts';

/** Why the schema cannot be brought up to date. The message names the migration and what to do. */
export class MigrationError extends CodedError<'changed' | 'newer' | 'bad_file' | 'failed' | 'forbidden'> {}

/** One numbered file. */
interface Migration {
  readonly id: number;
  /** File name without `.sql`. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the text, hex. */
  readonly checksum: string;
}

// Any number that no other advisory lock of ours uses.
const LOCK_KEY = 7_274_001;
// Rewriting a large table takes longer than any statement of a request may.
const TIMEOUT_MS = 30 * 60_000;
/** insufficient_privilege */
const FORBIDDEN = '42501';
const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/;
const TRANSACTION_CONTROL = /^\s*(begin|start\s+transaction|commit|rollback|end)\b[^;]*;/im;

/** Makes the table that says which migrations a database has. */
export const TABLE_OF_MIGRATIONS = `create table if not exists migrations (
  id integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())`;
/** What `appliedOf` reads. */
export const APPLIED = 'select id, name, checksum from migrations order by id';

/** Where the migrations of this build are. */
export const migrationsDir: string = packageFile('storage/migrations');

/** Reads `NNNN-name.sql` files in order. Rejects with MigrationError `bad_file` (a wrong name, a gap, a double). */
export async function readMigrations(dir = migrationsDir): Promise<Migration[]> {
  const names = (await readdir(dir)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (file, index) => {
      const id = Number(FILE_NAME.exec(file)?.[1]);
      if (id !== index + 1) {
        throw new MigrationError('bad_file', `Migration ${file}: expected a name like ${expectedName(index + 1)}.`);
      }
      const sql = await readFile(join(dir, file), 'utf8');
      // plpgsql bodies have their own begin and end, so look outside of dollar quotes only.
      if (TRANSACTION_CONTROL.test(sql.replace(/\$(\w*)\$[\s\S]*?\$\1\$/g, ''))) {
        throw new MigrationError('bad_file', `Migration ${file}: it runs in one transaction and must not end it.`);
      }
      return { id, name: file.slice(0, -4), sql, checksum: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

/**
 * Applies what is missing, each migration in a transaction of its own, and returns the names applied. Of two processes
 * at once one waits for the other. Where nothing is missing it only reads. Rejects with MigrationError: `changed` (an
 * applied file was edited), `newer` (the database knows a migration that this build does not), `failed` (a statement
 * failed; earlier migrations stay applied), `forbidden` (something is missing that this role may not apply).
 */
export async function migrate(db: Db, dir: string, log: Log): Promise<string[]> {
  const migrations = await readMigrations(dir);
  if ((await hasMigrations(db)) && (await nextOf(db, migrations)) === undefined) return [];
  const applied: string[] = [];
  for (;;) {
    const next = await db.tx((tx) => applyNext(tx, migrations), { timeoutMs: TIMEOUT_MS });
    if (next === undefined) break;
    log.debug({ migration: next }, 'migration applied');
    applied.push(next);
  }
  const [from] = applied;
  if (from !== undefined) log.info({ from, to: applied.at(-1), count: applied.length }, 'migrations applied');
  return applied;
}

const appliedRow = z.object({ id: z.number(), name: z.string(), checksum: z.string() });

/** The first migration that is missing. Throws MigrationError `changed` or `newer` for one that is there. */
async function nextOf(db: Queries, migrations: readonly Migration[]): Promise<Migration | undefined> {
  const done = appliedOf(await db.many(appliedRow, APPLIED), migrations);
  return migrations.find((migration) => !done.includes(migration));
}

/** Those of `migrations` that rows of the table `migrations` name. Throws MigrationError `changed` or `newer`. */
export function appliedOf(rows: readonly unknown[], migrations: readonly Migration[]): Migration[] {
  const done = appliedRow.array().parse(rows);
  for (const row of done) checkApplied(row, migrations);
  return migrations.filter(({ id }) => done.some((row) => row.id === id));
}

async function applyNext(tx: Tx, migrations: readonly Migration[]): Promise<string | undefined> {
  await tx.run('select pg_advisory_xact_lock($1)', [LOCK_KEY]);
  let next: Migration | undefined;
  try {
    await tx.script(TABLE_OF_MIGRATIONS);
    next = await nextOf(tx, migrations);
    if (next === undefined) return undefined;
    await tx.script(next.sql);
    const values = [next.id, next.name, next.checksum];
    await tx.run('insert into migrations (id, name, checksum) values ($1, $2, $3)', values);
  } catch (error) {
    if (!(error instanceof StorageError) || error.code === 'unavailable' || error.code === 'conflict') throw error;
    if (error.sqlState === FORBIDDEN)
      throw new MigrationError('forbidden', 'This role may not apply the migrations that are missing.', {
        cause: error,
      });
    if (next === undefined) throw error;
    const reason = errorText(error, 'unknown');
    throw new MigrationError('failed', `Migration ${next.name} failed and was rolled back: ${reason}`, {
      cause: error,
    });
  }
  return next.name;
}

function checkApplied(row: z.output<typeof appliedRow>, migrations: readonly Migration[]): void {
  const file = migrations[row.id - 1];
  if (file === undefined) {
    throw new MigrationError(
      'newer',
      `The database has migration ${row.name}, which this version of troupe does not know. Run a newer version.`,
    );
  }
  if (file.checksum !== row.checksum) {
    throw new MigrationError(
      'changed',
      `Migration ${file.name} was applied as ${row.name} with other content. Restore it; write changes as a new ` +
        'migration.',
    );
  }
}

function expectedName(id: number): string {
  return `${String(id).padStart(4, '0')}-some-name.sql`;
}

/** How many migrations a database has, of those of this build. An empty one is not behind. Changes nothing. */
export async function schemaVersion(
  db: Db,
  dir = migrationsDir,
): Promise<{ has: number; knows: number; isBehind: boolean }> {
  const knows = (await readMigrations(dir)).length;
  if (!(await hasMigrations(db))) return { has: 0, knows, isBehind: false };
  const has = (await oneValue(db, z.number(), 'select coalesce(max(id), 0) from migrations')) ?? 0;
  return { has, knows, isBehind: has > 0 && has < knows };
}

async function hasMigrations(db: Queries): Promise<boolean> {
  return (await oneValue(db, z.boolean(), "select to_regclass('migrations') is not null")) === true;
}
