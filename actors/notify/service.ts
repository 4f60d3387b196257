/** The notification service: its endpoints, who answers them, and its supervision tree. */
import { Refusal } from '../../proto/errors.ts';
import { notificationSocket, notifyEndpoints } from '../../proto/notify/endpoints.ts';
import type { Service } from '../../proto/service.ts';
import { type AnyRef, type Entities, entities, type SystemRef } from '../../supervision/index.ts';
import { connect } from '../service/connection.ts';
import { ASK_TIMEOUT, actorKey, askActor, callerOf, callOf, refusalOf } from '../service/dispatch.ts';
import { databaseProblem, healthOf, lifeOf } from '../service/health.ts';
import { connectionSupervisor, startServiceSupervisor } from '../service/supervisor.ts';
import { notificationConnection, type UserSocketHouse } from './connection.ts';
import { type QuotaMessage, quotaKind, SEATS } from './connection-quota.ts';
import type { NotifyDeps } from './deps.ts';
import { startIntake } from './intake.ts';
import { type PeerHints, startPeerHints } from './peer-hints.ts';
import { notificationReader } from './reader.ts';
import { startRetention } from './retention.ts';
import { type NotifyUserMessage, type TellSeats, userKind } from './user.ts';

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startNotify(system: SystemRef, deps: NotifyDeps): Promise<Service> {
  let users: Entities<NotifyUserMessage> | undefined;
  let connections: AnyRef | undefined;
  let others: PeerHints | undefined;
  let seats: Entities<QuotaMessage> | undefined;
  const { home } = deps;
  const tellSeats: TellSeats | undefined = home && ((userId, mail) => seats?.tell(userId, mail));
  const kind = userKind(deps, tellSeats);
  const reader = notificationReader(deps.db);
  const house: UserSocketHouse = {
    deps,
    reader,
    present: new Map<string, number>(),
    attach: (userId, socket) => users?.tell(userId, { type: 'attach', socket }),
    detach: (userId, socket) => users?.tell(userId, { type: 'detached', socket }),
  };
  const headOf = (userId: string) =>
    reader.head(userId).catch((error: unknown) => {
      throw refusalOf(error);
    });

  const supervisor = await startServiceSupervisor(system, 'notify', {
    ...(home && {
      seats: (parent: AnyRef) => {
        seats = home.place(SEATS, entities(parent, quotaKind()));
        return seats.ref;
      },
    }),
    users: (parent) => {
      users = entities(parent, kind);
      return users.ref;
    },
    connections: (parent) => {
      connections = connectionSupervisor(parent, 'notify', 'connections');
      return connections;
    },
    'peer-hints': (parent) => {
      others = startPeerHints(parent, deps.bus, (userId) => {
        if (house.present.has(userId)) users?.tell(userId, { type: 'look' });
      });
      return others.ref;
    },
    // Stopped first: what is stored meanwhile is told at the next start.
    intake: (parent) =>
      startIntake(parent, deps, {
        isPresent: (userId) => house.present.has(userId),
        tell: (userId, message) => users?.tell(userId, message),
        tellOthers: (userIds) => others?.tell(userIds),
      }),
    retention: (parent) => startRetention(parent, deps),
  });
  const stopProblem = lifeOf(supervisor);

  return {
    name: 'notify',
    endpoints: notifyEndpoints,
    call: async (endpoint, call) => {
      const entities = users;
      if (entities === undefined) throw new Refusal('unavailable');
      return askActor((make) => entities.ask(actorKey(endpoint, call), make, ASK_TIMEOUT), endpoint, call);
    },
    connect: async (_endpoint, call) => {
      const { userId, expiresAt } = callerOf(call);
      const parent = connections;
      if (parent === undefined) throw new Refusal('unavailable');
      // Read before the upgrade: whoever is connected misses nothing from then on.
      const { since = await headOf(userId) } = callOf(notificationSocket, call).query;
      const connection = notificationConnection(house, userId, since);
      const expiresInMs = expiresAt === 0 ? Number.POSITIVE_INFINITY : expiresAt * 1000 - deps.clock.now();
      return connect(parent, 'notify/socket', expiresInMs, connection);
    },
    health: async () => healthOf(stopProblem(), await databaseProblem(deps.db)),
  };
}
