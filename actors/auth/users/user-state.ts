/**
 * Whether a user may log in, and their removal, as the operator or the administrator says: `entry` says whose deed it
 * is.
 *
 *   active -- disable --> disabled -- enable --> active
 *      |                     |-- remove --> leaving -- containers and mappings are gone --> forgotten
 *      +------------------------ remove ------^
 */
import { randomUUID } from 'node:crypto';
import { userChanged } from '../../../proto/auth/endpoints.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { userByName } from '../../../storage/auth/users.ts';
import type { Db } from '../../../storage/db.ts';
import { disable, enable, forgetOffboarded, type Left, leftOf, removedUser } from '../../../storage/offboarding.ts';
import { append } from '../../../storage/outbox.ts';
import { type EntryMaker, operatorEntry } from '../../service/audit.ts';
import { userNamed } from './users.ts';

/** What `disableUser` came to. */
interface Disabled {
  readonly id: string;
  /** They were not disabled before, or are to be stopped now. */
  readonly changed: boolean;
  /** Containers that they have. */
  readonly containers: number;
}

/**
 * Lets a user in no more: sessions are over for good, tokens are refused until they are enabled, and all that is open
 * ends. With `stop` their containers are stopped by the platform, else these go on. Refuses `not_found`.
 */
export function disableUser(
  db: Db,
  username: string,
  { stop }: { readonly stop: boolean },
  entry: EntryMaker = operatorEntry,
): Promise<Disabled> {
  return db.tx(async (tx) => {
    const { id } = await userNamed(tx, username);
    const changed = await disable(tx, id, stop ? 'stop' : null);
    if (changed) await audit(tx, entry('user.disable', id, { username, stop }));
    return { id, changed, containers: (await leftOf(tx, id)).containers };
  });
}

/** Lets a user in again. Returns whether they were disabled. Refuses `not_found`, or `conflict` during removal. */
export function enableUser(
  db: Db,
  username: string,
  entry: EntryMaker = operatorEntry,
): Promise<{ readonly id: string; readonly changed: boolean }> {
  return db.tx(async (tx) => {
    const { id } = await userNamed(tx, username);
    const did = await enable(tx, id);
    if (did === 'leaving')
      throw new Refusal('conflict', { message: `${username} is being removed, which cannot be taken back.` });
    if (did === 'enabled') await audit(tx, entry('user.enable', id, { username }));
    return { id, changed: did === 'enabled' };
  });
}

/**
 * Begins the removal of a user: they are disabled, and the platform deletes their containers, then forgets them
 * (`forgetUser`). Again changes nothing. Returns the id; `isGone` when they were removed before. Refuses `not_found`,
 * and `conflict` for the administrator.
 */
export function beginRemoval(
  db: Db,
  username: string,
  adminUsername: string,
  entry: EntryMaker = operatorEntry,
): Promise<{ readonly id: string; readonly isGone: boolean }> {
  return db.tx(async (tx) => {
    const user = await userByName(tx, username);
    const former = user === undefined ? await removedUser(tx, username) : undefined;
    if (former !== undefined) return { id: former, isGone: true };
    const { id } = user ?? (await userNamed(tx, username));
    if (username === adminUsername)
      throw new Refusal('conflict', {
        message:
          `${username} is the administrator of this platform (ADMIN_USERNAME), and the only one: name another there ` +
          'first.',
      });
    if (await disable(tx, id, 'remove')) await audit(tx, entry('user.remove', id, { username }));
    return { id, isGone: false };
  });
}

/** Forgets a user who is being removed and has nothing left. Returns what is left; undefined when the user is gone. */
export function forgetUser(db: Db, userId: string): Promise<Left | undefined> {
  return forgetOffboarded(db, userId, async (tx, { username }) => {
    await audit(tx, operatorEntry('user.removed', userId, { username }));
    await append(tx, { msgId: randomUUID(), subject: userChanged.subject(userId), data: new Uint8Array() });
  });
}
