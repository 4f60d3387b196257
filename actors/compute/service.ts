/** The compute service: its endpoints, who answers them, and its supervision tree. */
import { computeEndpoints, computeSocket, logs, terminal } from '../../proto/compute.ts';
import { Refusal } from '../../proto/errors.ts';
import type { Service } from '../../proto/service.ts';
import {
  type AnyRef,
  type Entities,
  entities,
  type SystemRef,
  spawn,
  startSupervisor,
} from '../../supervision/index.ts';
import { ASK_TIMEOUT, actorKey, callerOf, callOf, callThrough } from '../door.ts';
import { databaseProblem, healthOf, lifeOf } from '../health.ts';
import { containerKind } from './container.ts';
import type { ContainerMessage } from './container-state.ts';
import type { ComputeDeps } from './deps.ts';
import { logConnection } from './logs.ts';
import { connect } from './streams.ts';
import { terminalConnection } from './terminal.ts';
import { type UserMessage, userKind } from './user.ts';
import { type EngineHealth, startWatcher } from './watcher.ts';

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startCompute(system: SystemRef, deps: ComputeDeps): Promise<Service> {
  let users: Entities<UserMessage> | undefined;
  let containers: Entities<ContainerMessage> | undefined;
  let connections: AnyRef | undefined;
  const engine: EngineHealth = { problem: undefined, connections: 0 };

  const look = (containerId: string) => containers?.tell(containerId, { type: 'look' });
  const kinds = {
    user: userKind(deps, look),
    container: containerKind(deps, (row) => users?.tell(row.userId, { type: 'status', row }), engine),
  };

  const supervisor = await startSupervisor(system, {
    name: 'compute',
    strategy: 'one-for-one',
    intensity: { max: 10, withinMs: 10_000 },
    // A part that is down for a moment must not use up the restarts.
    backoff: { minMs: 100, maxMs: 5000 },
    // Stopped in reverse: connections close first, and nothing wakes a container that is being put to sleep.
    children: [
      {
        id: 'users',
        restart: 'permanent',
        shutdownMs: 5000,
        start: (parent) => {
          users = entities(parent, kinds.user);
          return users.ref;
        },
      },
      {
        id: 'containers',
        restart: 'permanent',
        shutdownMs: 5000,
        start: (parent) => {
          containers = entities(parent, kinds.container);
          return containers.ref;
        },
      },
      {
        id: 'watcher',
        restart: 'permanent',
        shutdownMs: 5000,
        start: (parent) => startWatcher(parent, deps, look, engine),
      },
      {
        id: 'connections',
        restart: 'permanent',
        shutdownMs: 5000,
        start: (parent) => {
          // A connection that fails ends alone: its client comes back.
          connections = spawn<null, never>(parent, (state) => state, {
            name: 'connections',
            kind: 'compute/connections',
            onCrash: (_message, _error, ctx, child) => (child === undefined ? ctx.resume : ctx.stopChild),
          });
          return connections;
        },
      },
    ],
  });
  const stopProblem = lifeOf(supervisor);

  /** The parts, once they stand. */
  function parts() {
    if (users === undefined || containers === undefined || connections === undefined) throw new Refusal('unavailable');
    return { users, containers, connections };
  }

  const ask: Service['call'] = async (endpoint, call) => {
    const { users, containers } = parts();
    const key = actorKey(endpoint, call);
    // Apart, since each kind has its own messages; a call is among those of both.
    if (endpoint.actor.kind === 'compute/user')
      return callThrough((make) => users.ask(key, make, ASK_TIMEOUT), endpoint, call);
    return callThrough((make) => containers.ask(key, make, ASK_TIMEOUT), endpoint, call);
  };

  return {
    name: 'compute',
    endpoints: computeEndpoints,
    call: ask,
    connect: async (endpoint, call) => {
      const { users, containers, connections } = parts();
      const caller = callerOf(call);
      const expiresInMs =
        caller.expiresAt === 0 ? Number.POSITIVE_INFINITY : caller.expiresAt * 1000 - deps.clock.now();
      if (endpoint.name === computeSocket.name) {
        return connect(connections, 'compute/updates', expiresInMs, {
          open() {},
          attach: (self) => users.tell(caller.userId, { type: 'attach', connection: self }),
        });
      }
      // Whether this user may, and whether the container runs.
      await ask(endpoint, call);
      const containerId = actorKey(endpoint, call);
      if (endpoint.name === terminal.name) {
        return connect(
          connections,
          'compute/terminal',
          expiresInMs,
          terminalConnection(deps, containerId, (stream) => containers.tell(containerId, { type: 'attach', stream })),
        );
      }
      const { tail } = callOf(logs, call).query;
      return connect(connections, 'compute/log', expiresInMs, logConnection(deps, containerId, tail));
    },
    health: async () => healthOf(stopProblem(), await databaseProblem(deps.db), engine.problem),
  };
}
