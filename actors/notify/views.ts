/** What users see of rows. */
import type { MuteView, NotificationView } from '../../proto/notify/endpoints.ts';
import type { MuteRow } from '../../storage/notify/mutes.ts';
import type { NotificationRow } from '../../storage/notify/notifications.ts';

/** A notification. */
export function notificationView(row: NotificationRow): NotificationView {
  return {
    id: row.id,
    user_id: row.userId,
    title: row.title,
    message: row.message,
    link: row.link,
    category: row.category,
    scope: row.scope,
    read: row.read,
    created_at: row.createdAt.toISOString(),
  };
}

/** A mute. */
export function muteView(row: MuteRow): MuteView {
  return {
    id: row.id,
    user_id: row.userId,
    category: row.category,
    scope: row.scope,
    created_at: row.createdAt.toISOString(),
  };
}
