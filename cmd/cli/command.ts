/**
 * What commands on the platform's data share: they work beside a running platform, and print for people or for scripts.
 */
import { readEnvironment } from '../config/config.ts';
import { withDatabase } from '../node/database.ts';
import { openLog } from '../observability/log.ts';

/** Options that all of them take. */
export interface CommandOptions {
  readonly data: string;
  readonly json?: boolean;
}

/** Runs `work` on the database of the environment, or of the data folder. As `withDatabase`. */
export function onDatabase<T>(
  { data }: Pick<CommandOptions, 'data'>,
  work: Parameters<typeof withDatabase<T>>[3],
  prepare?: Parameters<typeof withDatabase<T>>[4],
): Promise<T> {
  const environment = readEnvironment(process.env);
  return withDatabase(environment, data, openLog(environment.LOG_LEVEL ?? 'error'), work, prepare);
}

/** Prints the result: `value` as JSON, or `text` for people. */
export function print({ json }: Pick<CommandOptions, 'json'>, value: unknown, text: () => string): void {
  process.stdout.write(`${json ? JSON.stringify(value) : text()}\n`);
}
