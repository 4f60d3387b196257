/**
 * SQL of users who are disabled or removed, which other services ask for as well (docs/reference/users.md). What those
 * keep of a user is deleted by functions of their own.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { voidPasswordLink } from './auth/password-links.ts';
import { tellTokens } from './auth/token-directory.ts';
import { countContainers } from './compute/containers.ts';
import { tellCompute } from './compute/news.ts';
import { deleteKeysOfUser } from './compute/ssh-keys.ts';
import type { Db, Queries, Tx } from './db.ts';
import { countMappings } from './network/mappings.ts';
import { deleteOwnedOfUser } from './network/zones.ts';
import { deleteNotificationsOfUser } from './notify/notifications.ts';
import { setTimer } from './placement/timers.ts';
import { oneValue } from './rows.ts';

const leavingSchema = z.enum(['stop', 'remove']);
const offboardedRow = z.object({ id: z.string(), username: z.string(), leaving: leavingSchema });

/** The timer of a user who is being removed; its message is how often it was tried to forget them. */
export const REMOVAL = { service: 'auth', kind: 'auth/user', name: 'forget' };

/** What is to be done with what a disabled user has: stop the containers, or remove everything. */
type Leaving = z.output<typeof leavingSchema>;

/** A user with whom something is to be done. */
export type OffboardedUser = z.output<typeof offboardedRow>;

/** All of them, by id. */
export function offboardedUsers(db: Queries): Promise<OffboardedUser[]> {
  return db.many(offboardedRow, 'select id, username, leaving from users where leaving is not null order by id');
}

/**
 * Disables a user and says what is to be done; a removal that was begun stays one. Their sessions so far, and their
 * password link, are over for good. Returns whether anything changed. All nodes are told at the commit, which ends what
 * they have open.
 */
export async function disable(tx: Tx, userId: string, leaving: Leaving | null): Promise<boolean> {
  const rows = await tx.run(
    `update users set disabled_at = coalesce(disabled_at, now()),
       sessions_from = case when disabled_at is null then date_trunc('second', now()) + interval '1 second' else
       sessions_from end,
       leaving = case when leaving = 'remove' then leaving else coalesce($2::text, leaving) end
     where id = $1 and (disabled_at is null or ($2::text is not null and leaving is distinct from $2::text and leaving
     is distinct from 'remove'))`,
    [userId, leaving],
  );
  await tx.run('update users set kept_session = null where id = $1', [userId]);
  await voidPasswordLink(tx, userId);
  // At once: its time is long ago.
  if (leaving === 'remove') await setTimer(tx, { ...REMOVAL, id: userId, key: randomUUID(), at: 0, message: 0 });
  // Also when nothing changed: whoever repeats it wants to be sure.
  await tellTokens(tx, 'user', userId);
  await tellCompute(tx, { kind: 'user', userId });
  return rows === 1;
}

/**
 * Lets a user in again, with new sessions. `leaving` when they are being removed, `same` when they were not disabled.
 */
export async function enable(tx: Tx, userId: string): Promise<'enabled' | 'same' | 'leaving'> {
  const state = await tx.one(
    z.object({ disabled: z.boolean(), leaving: leavingSchema.nullable() }),
    'select disabled_at is not null as disabled, leaving from users where id = $1 for update',
    [userId],
  );
  if (state?.leaving === 'remove') return 'leaving';
  if (state?.disabled !== true) return 'same';
  await tx.run('update users set disabled_at = null, leaving = null where id = $1', [userId]);
  return 'enabled';
}

/** How long it takes until sessions that begin now count, ms: they say in whole seconds when they began. */
export async function untilSessions(db: Queries, userId: string): Promise<number> {
  const ms = await oneValue(
    db,
    z.number(),
    `select greatest(0, ceil(extract(epoch from coalesce(sessions_from, now()) - clock_timestamp()) * 1000))::int
     from users where id = $1`,
    [userId],
  );
  return ms ?? 0;
}

/** The containers of a user have been stopped as was asked for. */
export async function noteStopped(db: Queries, userId: string): Promise<void> {
  await db.run(`update users set leaving = null where id = $1 and leaving = 'stop'`, [userId]);
}

/**
 * Whether a user may begin something new: not once they are disabled or removed. Whoever disables them meanwhile waits
 * for the end of `tx`, so that what was begun before is there to be seen.
 */
export async function isUserActive(tx: Tx, userId: string): Promise<boolean> {
  const isActive = 'select disabled_at is null from users where id = $1 for share';
  return (
    (await oneValue(tx, z.boolean(), isActive, [userId])) ??
    (await tx.run('select from removed_users where id = $1', [userId])) === 0
  );
}

/** What of a user is still to be removed by its service. */
export interface Left {
  readonly containers: number;
  readonly mappings: number;
  /** The registry may have images of theirs, which go last. */
  readonly images?: true;
}

/** What a user has. Containers that are being deleted count until nothing is left of them. */
export async function leftOf(db: Queries, userId: string): Promise<Left> {
  return { containers: await countContainers(db, userId), mappings: await countMappings(db, userId) };
}

/**
 * Forgets a user who is being removed and has neither containers nor mappings any more: their keys, tokens, sessions,
 * domains, notifications, and the visibility of their repositories. Runs `also` in the same transaction then. Returns
 * what is left; undefined when the user is gone, or was before.
 */
export function forgetOffboarded(
  db: Db,
  userId: string,
  also: (tx: Tx, user: OffboardedUser) => Promise<void>,
): Promise<Left | undefined> {
  return db.tx(async (tx) => {
    // Whoever began something has committed by now (`isUserActive`).
    const user = await tx.one(
      offboardedRow.extend({ hasImages: z.boolean() }),
      `select id, username, leaving, has_images as "hasImages" from users
       where id = $1 and leaving = 'remove' for update`,
      [userId],
    );
    if (user === undefined) return undefined;
    const left = await leftOf(tx, userId);
    if (left.containers + left.mappings > 0 || user.hasImages) return user.hasImages ? { ...left, images: true } : left;
    for (const forget of [deleteOwnedOfUser, deleteKeysOfUser, deleteNotificationsOfUser]) await forget(tx, userId);
    await tx.run(`delete from public_repositories where starts_with(name, $1)`, [`${user.username}/`]);
    await tx.run('delete from users where id = $1', [userId]);
    await tellTokens(tx, 'user', userId);
    await tx.run('insert into removed_users (id, username) values ($1, $2)', [userId, user.username]);
    await also(tx, user);
    return undefined;
  });
}

/** The name of a user who is being removed, and of whom the registry may have images; undefined for all others. */
export function nameOfImages(db: Queries, userId: string): Promise<string | undefined> {
  const waiting = `select username from users where id = $1 and leaving = 'remove' and has_images`;
  return oneValue(db, z.string(), waiting, [userId]);
}

/** The registry has no images of the user any more. */
export async function noteNoImages(tx: Tx, userId: string): Promise<void> {
  await tx.run('update users set has_images = false where id = $1', [userId]);
}

/** The id of the user of this name who was removed last, and not followed by another; undefined when there was none. */
export function removedUser(db: Queries, username: string): Promise<string | undefined> {
  const last = 'select id from removed_users where username = $1 order by removed_at desc limit 1';
  return oneValue(db, z.string(), last, [username]);
}
