/** `troupe migrate`: brings the database up to date and says what was done. */
import { bringUpToDate } from '../node/schema.ts';
import { onDatabase } from './command.ts';

/** Applies the migrations that are missing. Throws CliError as `bringUpToDate`. */
export async function migrateDatabase(options: { readonly data: string }): Promise<void> {
  await onDatabase(options, (db) => db.ping(), bringUpToDate);
  process.stdout.write('The database is up to date.\n');
}
