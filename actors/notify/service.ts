/** The notification service: its endpoints, who answers them, and its supervision tree. */
import type { Service } from '../../proto/endpoint.ts';
import { notificationSocket, notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { StorageError } from '../../storage/errors.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { handlers, refusalOf } from '../service/dispatch.ts';
import { Connections, localEntities, placedEntities, pool } from '../service/parts.ts';
import { startService, streamHandler } from '../service/start-service.ts';
import { currentLimit } from '../service/user-limits.ts';
import { notificationConnection, notificationReader, type SocketParts } from './connection.ts';
import { CONNECTION_QUOTA, quotaKind } from './connection-quota.ts';
import { deliveries } from './deliveries/deliveries.ts';
import { mailHandlers } from './deliveries/mail-handlers.ts';
import { webhookHandlers } from './deliveries/webhook-handlers.ts';
import type { NotifyDeps } from './deps.ts';
import { startIntake } from './intake.ts';
import { PeerHints } from './peer-hints.ts';
import { retention } from './retention.ts';
import { userKind } from './user.ts';

/** Settings of users that are not their actors': a mail server or a resolver may take seconds to answer. */
const SETTINGS = { name: 'settings', concurrency: 32, queue: 256 };

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export function startNotify(system: SystemRef, deps: NotifyDeps): Promise<Service> {
  const { db, bus, clock, placement } = deps;
  const reader = notificationReader(db);
  const present = new Map<string, number>();
  const quota =
    placement && placedEntities(placement, CONNECTION_QUOTA, quotaKind(deps.userLimits.notification_sockets));
  const others = new PeerHints(bus, {
    stored: (userId) => {
      if (present.has(userId)) users.tell(userId, { type: 'look' });
    },
    read: (userId, id) => {
      if (present.has(userId)) users.tell(userId, { type: 'read', id });
    },
  });
  const users = localEntities(userKind(deps, others, quota));
  const socketParts: SocketParts = { deps, reader, present, users };
  const connections = new Connections('notify', clock);
  const settings = pool('notify/settings', handlers(...webhookHandlers(deps), ...mailHandlers(deps)), SETTINGS);
  const headOf = (userId: string) =>
    reader.head(userId).catch((error: unknown) => {
      throw refusalOf(error);
    });

  // While the database is away, as many as all.
  const limitOf = (userId: string) =>
    currentLimit(db, deps.userLimits, userId, 'notification_sockets').catch((error: unknown) => {
      if (error instanceof StorageError) return { most: deps.userLimits.notification_sockets, changedAt: 0 };
      throw error;
    });

  return startService(system, {
    name: 'notify',
    endpoints: notifyEndpoints,
    db,
    placement,
    parts: {
      quota,
      users,
      connections,
      'peer-hints': others,
      // Stopped before them: what is stored meanwhile is told at the next start.
      intake: (parent) => startIntake(parent, deps, { present, users, others }),
      retention: retention(deps),
      settings,
      ...(deps.deliveries === undefined ? {} : { deliveries: deliveries(deps, deps.deliveries) }),
    },
    sockets: [
      streamHandler(notificationSocket, async ({ query }, caller) => {
        // Read before the upgrade: whoever is connected misses nothing from then on.
        const { since = await headOf(caller.userId), v } = query;
        const limit = await limitOf(caller.userId);
        const connection = notificationConnection(socketParts, { userId: caller.userId, limit, since, version: v });
        return connections.open('notify/socket', caller, connection);
      }),
    ],
  });
}
