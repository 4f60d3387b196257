/** `troupe migrate`: brings the database up to date and says what was done. */
import { readEnvironment } from '../config/config.ts';
import { withDatabase } from '../node/database.ts';
import { openLog } from '../observability/log.ts';

/** Every command migrates before it works, so opening the database is all there is to do. */
export async function migrateDatabase(options: { readonly data: string }): Promise<void> {
  const environment = readEnvironment(process.env);
  await withDatabase(environment, options.data, openLog(environment.LOG_LEVEL ?? 'error'), (db) => db.ping());
  process.stdout.write('The database is up to date.\n');
}
