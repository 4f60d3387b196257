/** The compute service: its endpoints, who answers them, and its supervision tree. */
import { computeEndpoints, computeSocket, getContainer, terminal } from '../../proto/compute/endpoints.ts';
import { execContainer } from '../../proto/compute/exec.ts';
import { logs, readLogs } from '../../proto/compute/logs.ts';
import type { Service } from '../../proto/endpoint.ts';
import { computeNews } from '../../storage/compute/news.ts';
import type { Ref, SystemRef } from '../../supervision/index.ts';
import type { Connection, ConnectionMessage } from '../service/connection.ts';
import { Connections, placedEntities } from '../service/parts.ts';
import { startService, streamHandler } from '../service/start-service.ts';
import { containerKind } from './container/container.ts';
import type { EngineHealth } from './container/sweeps.ts';
import { startWatcher } from './container/watcher.ts';
import type { ComputeDeps } from './deps.ts';
import { AbsentCommands } from './exec/absent.ts';
import { commandConnection, ownersCall } from './exec/connection.ts';
import { fileTransfers } from './files/files.ts';
import { listing } from './listing.ts';
import { endOfLog, logConnection } from './logs/logs.ts';
import { LogSharing } from './logs/sharing.ts';
import { logTexts } from './logs/text.ts';
import { offboardingPart } from './offboarding.ts';
import { COMPUTE_CONTAINER, COMPUTE_USER } from './placed.ts';
import { retention } from './retention.ts';
import { SocketLimits } from './socket-limits.ts';
import { terminalConnection } from './terminal/terminal.ts';
import { Terminals } from './terminal/terminals.ts';
import { userKind } from './user.ts';
import { WaitingCalls } from './waiting.ts';

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startCompute(system: SystemRef, deps: ComputeDeps): Promise<Service> {
  const { db, clock, placement } = deps;
  const engine: EngineHealth = { problem: undefined, connections: 0 };
  const limits = new SocketLimits(deps);
  const sharing = new LogSharing(deps.engine);

  const reconcile = (containerId: string): void => containers.tell(containerId, { type: 'look' });
  const users = placedEntities(placement, COMPUTE_USER, userKind(deps, reconcile, limits));
  const containers = placedEntities(
    placement,
    COMPUTE_CONTAINER,
    containerKind(
      deps,
      (container) => users.tell(container.userId, { type: 'status', container }),
      engine,
      (news) => users.tell(news.userId, news),
    ),
  );
  const terminals = new Terminals(deps, (id, terminal) => containers.tell(id, { type: 'attach', terminal }));
  const absent = new AbsentCommands(deps);
  const connections = new Connections('compute', clock);

  const service = await startService(system, {
    name: 'compute',
    endpoints: computeEndpoints,
    db,
    // Stopped in reverse: connections close first, and nothing wakes a container that is being put to sleep.
    placement,
    parts: {
      users,
      containers,
      listing: listing(deps, containers),
      offboarding: offboardingPart(deps, containers),
      retention: retention(deps),
      watcher: (parent) => startWatcher(parent, deps, reconcile, engine),
      terminals,
      absent,
      connections,
    },
    sockets: [
      streamHandler(computeSocket, async (call, caller) => {
        const most = await limits.most(caller.userId, 'update_sockets');
        const version = call.query.v === '2' ? 2 : 1;
        const updates: Connection = {
          open() {},
          isAnswered: true,
          attach: (self) => users.tell(caller.userId, { type: 'attach', connection: self, version }),
        };
        const shown = limits.limited(caller.userId, 'update_sockets', most, updates);
        return connections.open('compute/updates', caller, shown);
      }),
      streamHandler(terminal, async (call, caller) => {
        // Whether this user may, and whether the container runs.
        await containers.call(terminal, call);
        const most = await limits.most(caller.userId, 'terminals');
        const { session, input, exit } = call.query;
        const how = { lines: input === 'lines', tellsExit: exit === 'true' };
        const request = { caller, containerId: call.params.id, session, ...how };
        terminals.admit(request);
        const shown = limits.limited(caller.userId, 'terminals', most, terminalConnection(terminals, request));
        return connections.open('compute/terminal', caller, shown);
      }),
      streamHandler(execContainer, async (call, caller) => {
        await containers.call(execContainer, ownersCall(call));
        const most = await limits.most(caller.userId, 'commands');
        const attach = (self: Ref<ConnectionMessage>) =>
          containers.tell(call.params.id, { type: 'attach', terminal: self });
        const shown = limits.limited(
          caller.userId,
          'commands',
          most,
          commandConnection({ ...deps, absent }, call, caller, attach),
        );
        return connections.open('compute/exec', caller, shown);
      }),
      streamHandler(logs, async (call, caller) => {
        await containers.call(logs, call);
        const most = await limits.most(caller.userId, 'log_sockets');
        const whatEnded = () => endOfLog(containers.call(getContainer, call));
        const log = logConnection(deps, sharing, call.params.id, call.query, whatEnded);
        return connections.open('compute/log', caller, limits.limited(caller.userId, 'log_sockets', most, log));
      }),
    ],
    transfers: [
      ...fileTransfers(deps, (endpoint, call) => containers.call(endpoint, call)),
      logTexts(deps.engine, (call) => containers.call(readLogs, call)),
    ],
    problems: () => [engine.problem],
  });
  const waiting = new WaitingCalls(service, computeNews(db));
  return { ...service, call: (endpoint, call) => waiting.call(endpoint, call) };
}
