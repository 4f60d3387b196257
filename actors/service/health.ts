/** What services say of the parts they need. */
import { errorText } from '../../lib/errors.ts';
import type { Health } from '../../proto/service.ts';
import type { Db } from '../../storage/db.ts';

/** A sentence when the database does not answer, else undefined. */
export async function databaseProblem(db: Pick<Db, 'ping'>): Promise<string | undefined> {
  try {
    await db.ping();
    return undefined;
  } catch (error) {
    return `database: ${errorText(error, 'it does not answer')}`;
  }
}

/** Well when there is no problem among those given. */
export function healthOf(...problems: readonly (string | undefined)[]): Health {
  const present = problems.filter((problem) => problem !== undefined);
  return { ok: present.length === 0, problems: present };
}
