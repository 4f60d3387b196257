/** Reads for many sockets at once: where each user's notifications end, and what comes after an id. */

import { BatchLoader } from '../../lib/batching.ts';
import type { Db } from '../../storage/db.ts';
import { type After, headsOf, type NotificationRow, notificationsAfter } from '../../storage/notify/notifications.ts';

/** Notifications of one page. */
export const PAGE = 100;
/** Pages in one statement: of the longest notifications there are, they take some ten megabytes. */
const PAGES_AT_ONCE = 32;
const HEADS_AT_ONCE = 500;

export interface Reader {
  /** The user's highest id, 0 without notifications. Rejects with StorageError. */
  head(userId: string): Promise<number>;
  /** The first PAGE of a user's notifications above an id; fewer when there are no more. Rejects with StorageError. */
  page(after: After): Promise<readonly NotificationRow[]>;
}

/** Makes the reader of a process. */
export function notificationReader(db: Db): Reader {
  const heads = new BatchLoader<string, number>((userIds) => headsOf(db, userIds), { most: HEADS_AT_ONCE, atOnce: 2 });
  const pages = new BatchLoader<After, readonly NotificationRow[]>((wanted) => notificationsAfter(db, wanted, PAGE), {
    most: PAGES_AT_ONCE,
    atOnce: 2,
  });
  return { head: (userId) => heads.load(userId), page: (after) => pages.load(after) };
}
