/** The compute service: its endpoints, who answers them, and its supervision tree. */
import {
  computeEndpoints,
  computeSocket,
  containerSchema,
  getContainer,
  logs,
  terminal,
} from '../../proto/compute/endpoints.ts';
import { Refusal } from '../../proto/errors.ts';
import type { Service } from '../../proto/service.ts';
import { type AnyRef, type Entities, entities, query, type Ref, type SystemRef } from '../../supervision/index.ts';
import { type Connection, type ConnectionEnd, connect } from '../service/connection.ts';
import { ASK_TIMEOUT, actorKey, askActor, type CallMessage, callerOf, callOf } from '../service/dispatch.ts';
import { databaseProblem, healthOf, lifeOf } from '../service/health.ts';
import { connectionSupervisor, startServiceSupervisor } from '../service/supervisor.ts';
import { containerKind } from './container/container.ts';
import { type EngineHealth, startWatcher } from './container/watcher.ts';
import type { ComputeDeps } from './deps.ts';
import { startDesk } from './desk.ts';
import { logConnection } from './logs/logs.ts';
import { LogSharing } from './logs/sharing.ts';
import { startOffboarding } from './offboarding.ts';
import { COMPUTE_CONTAINER, COMPUTE_USER, type ContainerMail, type UserMail } from './placed.ts';
import { SocketLimits } from './socket-limits.ts';
import { terminalConnection } from './terminal/terminal.ts';
import { Terminals } from './terminal/terminals.ts';
import { userKind } from './user.ts';

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startCompute(system: SystemRef, deps: ComputeDeps): Promise<Service> {
  let users: Entities<UserMail> | undefined;
  let containers: Entities<ContainerMail> | undefined;
  let terminals: Terminals | undefined;
  let connections: AnyRef | undefined;
  let desk: Ref<CallMessage> | undefined;
  const engine: EngineHealth = { problem: undefined, connections: 0 };

  const sockets = new SocketLimits();
  const sharing = new LogSharing(deps.engine);

  const look = (containerId: string) => containers?.tell(containerId, { type: 'look' });
  const kinds = {
    user: userKind(deps, look),
    container: containerKind(deps, (row) => users?.tell(row.userId, { type: 'status', container: row }), engine),
  };

  /** The parts, once they stand. */
  function parts() {
    if (!users || !containers || !terminals || !connections || !desk) throw new Refusal('unavailable');
    return { users, containers, terminals, connections, desk };
  }

  const ask: Service['call'] = async (endpoint, call) => {
    const { users, containers, desk } = parts();
    if (endpoint.actor.key === 'desk') return askActor((make) => query(desk, make, ASK_TIMEOUT), endpoint, call);
    const key = actorKey(endpoint, call);
    // Apart, since each kind has its own messages; a call is among those of both.
    if (endpoint.actor.kind === 'compute/user')
      return askActor((make) => users.ask(key, make, ASK_TIMEOUT), endpoint, call);
    return askActor((make) => containers.ask(key, make, ASK_TIMEOUT), endpoint, call);
  };

  // Stopped in reverse: connections close first, and nothing wakes a container that is being put to sleep.
  const supervisor = await startServiceSupervisor(system, 'compute', {
    users: (parent) => {
      users = deps.home.place(COMPUTE_USER, entities(parent, kinds.user));
      return users.ref;
    },
    containers: (parent) => {
      containers = deps.home.place(COMPUTE_CONTAINER, entities(parent, kinds.container));
      return containers.ref;
    },
    desk: (parent) => {
      desk = startDesk(parent, deps);
      return desk;
    },
    offboarding: (parent) => startOffboarding(parent, deps, ask),
    watcher: (parent) => startWatcher(parent, deps, look, engine),
    terminals: (parent) => {
      const ref = connectionSupervisor(parent, 'compute', 'terminals');
      terminals = new Terminals(deps, ref, (id, stream) => containers?.tell(id, { type: 'attach', stream }));
      return ref;
    },
    connections: (parent) => {
      connections = connectionSupervisor(parent, 'compute', 'connections');
      return connections;
    },
  });
  const stopProblem = lifeOf(supervisor);

  return {
    name: 'compute',
    endpoints: computeEndpoints,
    call: ask,
    connect: async (endpoint, call) => {
      const { users, terminals, connections } = parts();
      const caller = callerOf(call);
      const expiresInMs =
        caller.expiresAt === 0 ? Number.POSITIVE_INFINITY : caller.expiresAt * 1000 - deps.clock.now();
      if (endpoint.name === computeSocket.name) {
        const updates: Connection = {
          open() {},
          isAnswered: true,
          attach: (self) => users.tell(caller.userId, { type: 'attach', connection: self }),
        };
        return connect(connections, 'compute/updates', expiresInMs, sockets.limited(caller.userId, 'updates', updates));
      }
      // Whether this user may, and whether the container runs.
      await ask(endpoint, call);
      const containerId = actorKey(endpoint, call);
      if (endpoint.name === terminal.name) {
        const { session, input } = callOf(terminal, call).query;
        const request = { caller, containerId, session, lines: input === 'lines' };
        terminals.admit(request);
        const shown = sockets.limited(caller.userId, 'terminals', terminalConnection(terminals, request));
        return connect(connections, 'compute/terminal', expiresInMs, shown);
      }
      const whatEnded = () => endOfLog(ask(getContainer, call));
      const log = logConnection(deps, sharing, containerId, callOf(logs, call).query, whatEnded);
      return connect(connections, 'compute/log', expiresInMs, sockets.limited(caller.userId, 'logs', log));
    },
    health: async () => healthOf(stopProblem(), await databaseProblem(deps.db), engine.problem),
  };
}

/** Why the engine has no more of a log, by what is known of the container then. */
async function endOfLog(view: Promise<unknown>): Promise<ConnectionEnd> {
  try {
    const { status } = containerSchema.pick({ status: true }).parse(await view);
    if (status === 'stopped' || status === 'failed') return { code: 1000, reason: `container ${status}` };
    return { code: 1012, reason: 'container restarts' };
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return { code: 1000, reason: 'container deleted' };
    return { code: 1013, reason: 'not available, try again' };
  }
}
