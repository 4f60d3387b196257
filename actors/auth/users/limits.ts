/** How many things of a kind one user may have, as operators set it. */
import { LIMIT_NAMES, type LimitChanges, type UserLimit } from '../../../proto/user-limits.ts';
import { audit } from '../../../storage/audit.ts';
import { holdUser, type UserRow } from '../../../storage/auth/users.ts';
import type { Db, Queries } from '../../../storage/db.ts';
import { givenLimits, setLimit } from '../../../storage/user-limits.ts';
import { type EntryMaker, operatorEntry } from '../../service/audit.ts';
import { userNamed } from './users.ts';

/** What a user may have of each; null: as all. */
export type OwnLimits = Record<UserLimit, number | null>;

/** Of each of several users, by id. */
export async function ownLimits(db: Queries, userIds: readonly string[]): Promise<(userId: string) => OwnLimits> {
  const given = await givenLimits(db, userIds);
  return (userId) => {
    const of = (name: UserLimit) => given.get(userId)?.get(name) ?? null;
    return {
      containers: of('containers'),
      ssh_keys: of('ssh_keys'),
      terminals: of('terminals'),
      commands: of('commands'),
      log_sockets: of('log_sockets'),
      update_sockets: of('update_sockets'),
      notification_sockets: of('notification_sockets'),
    };
  };
}

/**
 * Changes what one user may have, from the next time that they are asked for: nothing that is there goes. Returns what
 * holds then, and what was changed. Refuses `not_found`.
 */
export function changeLimits(
  db: Db,
  username: string,
  changes: LimitChanges,
  entry: EntryMaker = operatorEntry,
): Promise<{ readonly user: UserRow; readonly limits: OwnLimits; readonly changed: readonly UserLimit[] }> {
  return db.tx(async (tx) => {
    const user = await userNamed(tx, username);
    await holdUser(tx, user.id);
    const detail: Partial<Record<UserLimit, { before: number | null; after: number | null }>> = {};
    for (const name of LIMIT_NAMES) {
      const after = changes[name];
      const before = after === undefined ? undefined : await setLimit(tx, user.id, name, after);
      if (after !== undefined && before !== undefined) detail[name] = { before, after };
    }
    const changed = LIMIT_NAMES.filter((name) => detail[name] !== undefined);
    if (changed.length > 0) await audit(tx, entry('user.limits', user.id, { username, ...detail }));
    return { user, limits: (await ownLimits(tx, [user.id]))(user.id), changed };
  });
}
