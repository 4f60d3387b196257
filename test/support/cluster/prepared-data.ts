/** A database folder as `troupe up` has made it at its end, which a platform of a test begins with: it need not make one. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openDb } from '../../../storage/db.ts';
import { startEmbedded } from '../../../storage/embedded/server.ts';
import { migrate, migrationsDir } from '../../../storage/migrate.ts';
import { silentLog } from '../log.ts';

const run = promisify(execFile);

/** The runner tells its test processes by this where the folder is. */
const VARIABLE = 'TROUPE_TEST_DATA';
/** Of a data folder: the part that is copied. */
const PART = 'postgres';

/** Makes the folder, for a run of tests. Returns it, and what removes it. */
export async function prepareData(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-data-'));
  const server = await startEmbedded({ dataDir: folder, log: silentLog });
  const db = openDb(server.connection, { log: silentLog, name: 'test' });
  try {
    await migrate(db, migrationsDir, silentLog);
  } finally {
    await db.close();
    await server.stop({ force: true });
  }
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** Copies the prepared database into a data folder that has none yet. Without a runner, or with another database, nothing happens. */
export async function useDataFor(data: string, env: Readonly<Record<string, string>>): Promise<void> {
  const { [VARIABLE]: prepared } = process.env;
  if (prepared === undefined || 'DATABASE_URL' in env || existsSync(join(data, PART))) return;
  await mkdir(data, { recursive: true });
  await run('cp', ['-a', '--reflink=auto', join(prepared, PART), join(data, PART)]);
}
