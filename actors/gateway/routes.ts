/** The actor that keeps the gateway's picture true: it looks every 5 seconds, and at once when the routes have changed. */

import type { Ending } from '../../proto/ports.ts';
import { RouteTable } from '../../proto/routes.ts';
import { listRoutes, watchRoutes } from '../../storage/gateway/routes.ts';
import { type AnyRef, dispatch, type Ref, spawn } from '../../supervision/index.ts';
import type { GatewayDeps } from './deps.ts';
import type { Routing } from './routing.ts';

/** Interface section 8: container data reload. */
const EVERY_MS = 5000;

interface State {
  readonly watching: Ending;
  /** The routes as they were last read, to know whether they changed. */
  last: string;
  /** What is wrong at the moment, said once. */
  problem: string | undefined;
}

/** Starts the actor. `routing` shows what it finds; while storage or engine are away, what was known last goes on. */
export function startRoutes(parent: AnyRef, deps: GatewayDeps, routing: Routing): Ref<'look'> {
  const look = async (state: State): Promise<State> => {
    try {
      const [rows, containers] = await Promise.all([listRoutes(deps.db), deps.containers()]);
      const routes = [...deps.fileRoutes, ...rows];
      const text = JSON.stringify([
        routes,
        [...containers].map(([id, { address, ports }]) => [id, address, [...ports]]),
      ]);
      if (text !== state.last || !routing.isReady) {
        routing.show({ routes: new RouteTable(routes), containers });
        state.last = text;
      }
      if (state.problem !== undefined) deps.log.info({}, 'routes are read again');
      state.problem = undefined;
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (problem !== state.problem)
        deps.log.warn({ err: error }, 'routes could not be read: the last known ones go on');
      state.problem = problem;
    }
    return state;
  };
  const ref = spawn<State, 'look'>(parent, look, {
    name: 'routes',
    kind: 'gateway/routes',
    // Looks that wait would all find the same.
    mailbox: { capacity: 2, policy: 'drop-newest' },
    initialStateFunc: (ctx) => {
      ctx.every(EVERY_MS, 'look');
      return { watching: watchRoutes(deps.db, () => dispatch(ctx.self, 'look')), last: '', problem: undefined };
    },
    afterStop: (state) => state.watching.close(),
  });
  dispatch(ref, 'look');
  return ref;
}
