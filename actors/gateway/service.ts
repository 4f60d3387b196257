/**
 * The gateway's control: the picture that its listeners decide by, and an actor for each connection that lives on its
 * own.
 */

import type { SshAuthorizer } from '../../proto/gateway/ssh.ts';
import type { ProxyDecision, ProxyReply, ProxyRequest } from '../../proto/gateway/traffic.ts';
import { type AnyRef, type SystemRef, spawn, stop } from '../../supervision/index.ts';
import { lifeOf } from '../service/health.ts';
import { connectionSupervisor, startServiceSupervisor } from '../service/supervisor.ts';
import { Arrivals } from './arrivals.ts';
import type { GatewayDeps } from './deps.ts';
import { startRoutes } from './routes.ts';
import { NOT_RUNNING, type RoutedName, Routing } from './routing.ts';
import { sshControl } from './ssh.ts';

/** A connection that lives on its own, as its actor knows it. */
interface LongConnectionInfo {
  readonly kind: string;
  readonly host: string;
  readonly protocol: string;
  readonly address: string;
  readonly end: () => void;
}

/** The running control. */
export interface Gateway {
  decide(request: ProxyRequest): ProxyDecision | Promise<ProxyDecision>;
  decideName(serverName: string | undefined, port: number): RoutedName | Promise<RoutedName>;
  /** Gives the connection an actor; call what comes back when it ended. */
  adopt(connection: LongConnectionInfo): () => void;
  /** Decides about SSH. */
  readonly ssh: SshAuthorizer;
  /** Ports from 8000 to 8999 that some container uses. */
  ingressPorts(): ReadonlySet<number>;
  /** From here on `/readyz` says that the gateway is leaving. */
  drain(): void;
}

const FIRST_INGRESS = 8000;
const LAST_INGRESS = 8999;

/** Starts it under `system`. `onPicture` is told whenever routes or containers changed. */
export async function startGateway(system: SystemRef, deps: GatewayDeps, onPicture: () => void): Promise<Gateway> {
  const routing = new Routing(deps, onPicture);
  const arrivals = new Arrivals(() => routing.picture);
  let connections: AnyRef | undefined;
  const ssh = sshControl(deps, () => connections);
  let isDraining = false;
  const supervisor = await startServiceSupervisor(system, 'gateway', {
    routes: (parent) => startRoutes(parent, deps, routing, arrivals),
    connections: (parent) => {
      connections = connectionSupervisor(parent, 'gateway', 'connections');
      return connections;
    },
    ssh: (parent) => ssh.start(parent),
  });
  const stopProblem = lifeOf(supervisor);
  const readiness = readinessOf(
    () => (isDraining ? 'draining' : routing.isReady ? stopProblem() : 'not ready'),
    deps.busProblem ?? (() => undefined),
  );

  /** Waits for the container behind a name, if it is about to get an address. */
  const held = (host: string, port: number): Promise<void> | undefined => {
    const id = routing.containerAt(host, port);
    return id === undefined ? undefined : arrivals.wait(id);
  };

  return {
    decide: (request) => {
      if (isForMetrics(request)) {
        return deps.metrics().then(
          (body) => ({ reply: { status: 200, body } }),
          (error: unknown) => {
            deps.log.error({ err: error }, 'numbers could not be read');
            return { reply: { status: 500 } };
          },
        );
      }
      const page = isOwnHost(request.host) ? ownPage(request, readiness) : undefined;
      if (page !== undefined) return { reply: page };
      const decision = routing.decide(request);
      if (decision !== NOT_RUNNING) return decision;
      return held(request.host, request.port)?.then(() => routing.decide(request)) ?? decision;
    },
    decideName: (serverName, port) => {
      const decision = routing.decideName(serverName, port);
      if (decision !== 'refuse' || serverName === undefined) return decision;
      return held(serverName, port)?.then(() => routing.decideName(serverName, port)) ?? decision;
    },
    adopt: (connection) => {
      const parent = connections;
      if (parent === undefined) return () => {};
      const ref = spawn<LongConnectionInfo, 'end'>(
        parent,
        (state) => {
          state.end();
          return state;
        },
        { kind: `gateway/${connection.kind}`, initialState: connection, afterStop: (state) => state.end() },
      );
      return () => stop(ref);
    },
    ssh,
    ingressPorts: () => {
      const ports = new Set<number>();
      for (const { ports: open } of routing.picture?.containers.values() ?? []) {
        for (const port of open.keys()) if (port >= FIRST_INGRESS && port <= LAST_INGRESS) ports.add(port);
      }
      return ports;
    },
    drain: () => {
      isDraining = true;
    },
  };
}

/** Whether a request is to the gateway itself: whoever probes it names its address, not a host that is routed. */
function isOwnHost(host: string): boolean {
  return host === '' || host === 'localhost' || host.startsWith('[') || /^[0-9.]+$/.test(host);
}

/**
 * `/metrics`, for whoever is on this machine: the numbers tell how busy whom is, and the gateway has the world as its
 * clients. What another proxy on this machine passes on is the world's too.
 */
function isForMetrics(request: ProxyRequest): boolean {
  const { host, method, target, address } = request;
  return (
    target === '/metrics' &&
    method === 'GET' &&
    isOwnHost(host) &&
    (address.startsWith('127.') || address === '::1') &&
    ['x-forwarded-for', 'forwarded', 'x-real-ip', 'via'].every((name) => request.field(name) === undefined)
  );
}

/**
 * What `/readyz` says. A bus that was never reached keeps the gateway from being ready; one that went away later is
 * only told of, since routes and containers come from the database and traffic flows on.
 */
function readinessOf(notReady: () => string | undefined, busProblem: () => string | undefined): () => ProxyReply {
  let wasReached = false;
  return () => {
    const bus = busProblem();
    wasReached ||= bus === undefined;
    const problem = notReady() ?? (wasReached ? undefined : bus);
    if (problem !== undefined) return { status: 503, body: `${problem}\n` };
    return { status: 200, body: bus === undefined ? 'ready\n' : `ready, but ${bus}\n` };
  };
}

/** `/healthz` and `/readyz`. */
function ownPage({ target, method }: ProxyRequest, readiness: () => ProxyReply): ProxyReply | undefined {
  if (method !== 'GET' && method !== 'HEAD') return undefined;
  if (target === '/healthz') return { status: 200, body: 'ok\n' };
  return target === '/readyz' ? readiness() : undefined;
}
