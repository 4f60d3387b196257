/** Which servers Troupe runs on. */
import { z } from 'zod';
import type { DirectQueries } from './queries.ts';
import { oneValue } from './rows.ts';

/** The oldest major version on which all tests of storage pass. */
export const OLDEST_MAJOR = 15;

/** The major version of the server, such as 18. */
export async function serverMajor(db: DirectQueries): Promise<number> {
  const number = await oneValue(db, z.coerce.number(), "select current_setting('server_version_num')");
  return Math.floor((number ?? 0) / 10_000);
}
