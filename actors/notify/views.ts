/** What users see of rows. */
import type { MuteView, NotificationView } from '../../proto/notify/endpoints.ts';
import type { WebhookAnswerView, WebhookView } from '../../proto/notify/webhooks.ts';
import type { MuteRow } from '../../storage/notify/mutes.ts';
import type { NotificationRow } from '../../storage/notify/notifications.ts';
import type { WebhookAnswerRow, WebhookRow } from '../../storage/notify/webhooks.ts';
import { statusOf } from './deliveries/webhook-rules.ts';

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

/** A webhook. */
export function webhookView(row: WebhookRow): WebhookView {
  return {
    id: row.id,
    url: row.url,
    categories: row.categories,
    enabled: row.enabled,
    status: statusOf(row),
    disabled_because: row.disabledBecause,
    failing_since: row.failingSince?.toISOString() ?? null,
    waiting: row.waiting,
    created_at: row.createdAt.toISOString(),
  };
}

/** What a webhook answered. */
export function webhookAnswerView(row: WebhookAnswerRow): WebhookAnswerView {
  const { eventId, attempt, at, status, ms, error } = row;
  return { event_id: eventId, attempt, at: at.toISOString(), status, ms, error };
}
