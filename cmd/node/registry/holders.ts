/**
 * What the database says of those who push: whether they still may, as a token outlives what it was given for, and how
 * much room the administrator gave them.
 */
import { registryHolders, type StillHolds } from '../../../actors/auth/registry/registry-rights.ts';
import type { RegistryHolder } from '../../../proto/auth/tokens.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { registryLimitOf } from '../../../storage/auth/users.ts';
import { type Db, type DbConnection, openDb } from '../../../storage/db.ts';
import { partOf } from './pushed-part.ts';
import type { Admit } from './quota.ts';

/** Says it as the database has it, on a connection that is opened by the first push. */
export function holdersOver(connection: DbConnection, log: Log) {
  let db: Db | undefined;
  const holds: StillHolds = (...asked) => {
    db ??= openDb(connection, { log, name: 'registry', max: 2 });
    return registryHolders(db)(...asked);
  };
  const limitMb = (username: string): Promise<number | null> => {
    db ??= openDb(connection, { log, name: 'registry', max: 2 });
    return registryLimitOf(db, username);
  };
  return { holds, limitMb, close: async () => db?.close() };
}

const ENDED =
  'What you logged in with is no longer valid: it was revoked, or no longer has this right. Log in again with one ' +
  'that is.';

/** Asks for the holder of a token before anything else is. `holderOf`: of an `Authorization`, undefined without one. */
export function heldFirst(
  holderOf: (authorization: string | undefined) => Promise<RegistryHolder | undefined>,
  holds: StillHolds,
  then: Admit,
  log: Log,
): Admit {
  return async (request) => {
    const part = partOf(request.method, request.target);
    const holder = part && (await holderOf(request.field('authorization')));
    if (part === undefined || holder === undefined) return then(request);
    try {
      if (!(await holds(holder, part.repository, request.method === 'DELETE' ? 'delete' : 'push'))) return ENDED;
    } catch (error) {
      log.warn({ err: error }, 'whether who pushes still may could not be seen');
      throw error;
    }
    return then(request);
  };
}
