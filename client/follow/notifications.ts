/** Notifications as they come, none missing and none twice. */
import { ENDPOINTS } from '../generated/endpoints.ts';
import { fill } from '../path.ts';
import type { Following } from '../socket.ts';
import type { UserNotification } from '../types.ts';
import { type ClientCore, type FollowOptions, message } from './core.ts';

export interface NotificationsFollowOptions extends FollowOptions {
  /** The last one that is known: those above it come first. 0: all that are kept. Unless given: only new ones. */
  readonly since?: number | undefined;
  readonly onNotification: (notification: UserNotification) => void;
}

export function followNotifications(core: ClientCore, options: NotificationsFollowOptions): Following {
  const { onNotification, onState } = options;
  let since = options.since;
  return core.stream({
    onState,
    path: () => fill(ENDPOINTS.notificationSocket.slice('WS '.length), {}, { since }),
    text(data) {
      const notification = message<UserNotification>(data);
      if (since !== undefined && notification.id <= since) return;
      since = notification.id;
      onNotification(notification);
    },
    // Without a notification yet, the newest id says where to go on.
    check: async () => {
      const [newest] = await core.call('listNotifications', { query: { limit: '1' } });
      since ??= newest?.id ?? 0;
    },
  });
}
