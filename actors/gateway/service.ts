/**
 * The gateway's control: it decides for the listeners from a snapshot of routes and containers, and has an actor for
 * each connection that outlives a request.
 */
import { waitAtMost } from '../../lib/waiting.ts';
import type {
  GatewayDecider,
  IngressListeners,
  LongConnection,
  NameDecision,
} from '../../proto/gateway/gateway-decider.ts';
import type { SshAccountAuthorizer, SshAuthorizer } from '../../proto/gateway/ssh.ts';
import type { ProxyDecision, ProxyReply, ProxyRequest } from '../../proto/gateway/traffic.ts';
import { type AnyRef, type SystemRef, spawn, stop } from '../../supervision/index.ts';
import { connectionSupervisor, startParts } from '../service/supervisor.ts';
import { Arrivals } from './arrivals.ts';
import { pastBarrier } from './barrier.ts';
import { SupervisedClients } from './client-connections.ts';
import type { GatewayDeps } from './deps.ts';
import { type GuardAdmission, type GuardVerdict, PortGuards } from './guards/guards.ts';
import { isOfThisMachine } from './own-machine.ts';
import { startRoutes } from './routes.ts';
import { NOT_RUNNING, Routing } from './routing.ts';
import { sshControl } from './ssh.ts';
import { sshAccountControl } from './ssh-accounts.ts';

const FIRST_INGRESS = 8000;
const LAST_INGRESS = 8999;

/** How long a start waits for the first look at routes and containers, ms. */
const FIRST_LOOK_MS = 5000;

/** The answer while the control has not started. */
const STARTING: ProxyDecision = { reply: { status: 503, headers: [['Retry-After', '1']] } };

/** What there is once it has started. */
interface StartedControl {
  readonly routing: Routing;
  readonly arrivals: Arrivals;
  readonly guards: PortGuards;
  readonly readiness: () => ProxyReply;
}

/**
 * The gateway's control. Listeners may ask from the moment it is made: until `start` it answers 503, refuses names but
 * those of challenges, and calls every login `unavailable`.
 */
export class GatewayControl implements GatewayDecider {
  readonly ssh: SshAuthorizer;
  readonly sshAccounts: SshAccountAuthorizer;
  readonly clients = new SupervisedClients(() => this.#connections);
  readonly #deps: GatewayDeps;
  readonly #ssh: ReturnType<typeof sshControl>;
  readonly #sshAccounts: ReturnType<typeof sshAccountControl>;
  #running: StartedControl | undefined;
  #connections: AnyRef | undefined;
  #sshPort = 0;
  #isDraining = false;

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
    this.#ssh = sshControl(deps, () =>
      this.#connections === undefined ? undefined : { connections: this.#connections, port: this.#sshPort },
    );
    this.ssh = this.#ssh;
    this.#sshAccounts = sshAccountControl(deps, () => this.#connections);
    this.sshAccounts = this.#sshAccounts;
  }

  /**
   * Starts its actors under `system`, which end with it, and has `listeners` listen on the ports that containers use.
   * Resolves when the first look at routes and containers was made, after 5 s in any case: `/readyz` tells when one is
   * still missing. Rejects when a part cannot start.
   */
  async start(system: SystemRef, listeners: IngressListeners): Promise<void> {
    const deps = this.#deps;
    let looked: () => void = () => {};
    const firstLook = new Promise<void>((resolve) => {
      looked = resolve;
    });
    const routing: Routing = new Routing({ ...deps, ports: listeners.ports }, () => {
      looked();
      void listeners.listenOn(ingressPorts(routing));
    });
    const arrivals = new Arrivals(() => routing.snapshot);
    this.#sshPort = listeners.ports.ssh;
    const problem = await startParts(system, 'gateway', {
      routes: (parent) => startRoutes(parent, deps, routing, arrivals),
      connections: (parent) => {
        this.#connections = connectionSupervisor(parent, 'gateway', 'connections');
        return this.#connections;
      },
      ssh: (parent) => this.#ssh.start(parent),
      sshAccounts: (parent) => this.#sshAccounts.start(parent),
    });
    const readiness = readinessOf(
      () => (this.#isDraining ? 'draining' : routing.isReady ? problem() : 'not ready'),
      deps.busProblem ?? (() => undefined),
    );
    const guards = new PortGuards({ ...deps, consoleOf: (request) => routing.consoleOf(request) });
    this.#running = { routing, arrivals, guards, readiness };
    await waitAtMost(firstLook, FIRST_LOOK_MS);
    await listeners.listenOn(ingressPorts(routing));
  }

  /** From here on `/readyz` says that the gateway is leaving. */
  drain(): void {
    this.#isDraining = true;
  }

  isPlatformHost(host: string): boolean {
    return this.#running?.routing.isPlatformHost(host) === true;
  }

  decide(request: ProxyRequest): ProxyDecision | Promise<ProxyDecision> {
    const running = this.#running;
    if (running === undefined) return STARTING;
    if (isForMetrics(request)) return this.#metrics();
    const page = isOwnHost(request.host) ? ownPage(request, running.readiness) : undefined;
    if (page !== undefined) return { reply: page };
    const decision = this.#route(running, request);
    // Nobody waits on the way to a registry.
    const { barrier } = this.#deps;
    return barrier === undefined || decision instanceof Promise ? decision : pastBarrier(barrier, request, decision);
  }

  /** Each wait may see a rule change: what was decided before it counts for the rule of that moment only. */
  #route(
    running: StartedControl,
    request: ProxyRequest,
    admission?: GuardAdmission,
    hasWaited = false,
  ): ProxyDecision | Promise<ProxyDecision> {
    const decision = running.routing.decide(request, admission?.rule);
    if ('guard' in decision) {
      const judge = (verdict: GuardVerdict) =>
        'reply' in verdict ? verdict : this.#route(running, request, verdict, hasWaited);
      const verdict = running.guards.ask(request, decision.guard);
      return verdict instanceof Promise ? verdict.then(judge) : judge(verdict);
    }
    if (decision === NOT_RUNNING && !hasWaited) {
      const waiting = awaited(running, request.host, request.port);
      if (waiting !== undefined) return waiting.then(() => this.#route(running, request, admission, true));
    }
    if (admission === undefined || !('forward' in decision)) return decision;
    return { ...decision, setsCookie: admission.cookie, dropsAuthorization: admission.dropsAuthorization };
  }

  decideName(serverName: string | undefined, port: number, isChallenge: boolean): NameDecision | Promise<NameDecision> {
    if (serverName === undefined) return 'refuse';
    const running = this.#running;
    if (running === undefined) return orChallenge('refuse', isChallenge);
    const { routing } = running;
    const decision = orChallenge(routing.decideName(serverName, port), isChallenge);
    if (decision !== 'refuse' && decision !== 'challenge') return decision;
    const later = () => orChallenge(routing.decideName(serverName, port), isChallenge);
    return awaited(running, serverName, port, isChallenge ? 'authority' : 'client')?.then(later) ?? decision;
  }

  adopt(connection: LongConnection): () => void {
    const parent = this.#connections;
    if (parent === undefined) return () => {};
    const ref = spawn<LongConnection, 'end'>(
      parent,
      (state) => {
        state.end();
        return state;
      },
      { kind: `gateway/${connection.kind}`, initialState: connection, afterStop: (state) => state.end() },
    );
    return () => stop(ref);
  }

  async #metrics(): Promise<ProxyDecision> {
    try {
      return { reply: { status: 200, body: await this.#deps.metrics() } };
    } catch (error) {
      this.#deps.log.error({ err: error }, 'metrics could not be read');
      return { reply: { status: 500 } };
    }
  }
}

/**
 * A certificate authority is answered for every name for which TLS is not passed on: it may ask for one that this
 * gateway has not heard of yet.
 */
function orChallenge(decision: NameDecision, isChallenge: boolean): NameDecision {
  return isChallenge && typeof decision === 'string' ? 'challenge' : decision;
}

/** Waits for the container behind a name, if it is about to get an address. */
function awaited({ routing, arrivals }: StartedControl, host: string, port: number, who?: 'authority' | 'client') {
  const id = routing.containerAt(host, port);
  return id === undefined ? undefined : arrivals.wait(id, who);
}

/** Ports from 8000 to 8999 that some container uses. */
function ingressPorts(routing: Routing): ReadonlySet<number> {
  const ports = new Set<number>();
  for (const { ports: open } of routing.snapshot?.containers.values() ?? []) {
    for (const port of open.keys()) if (port >= FIRST_INGRESS && port <= LAST_INGRESS) ports.add(port);
  }
  return ports;
}

/** Whether a request is to the gateway itself: a probe names its address, not a host that is routed. */
function isOwnHost(host: string): boolean {
  return host === '' || host === 'localhost' || host.startsWith('[') || /^[0-9.]+$/.test(host);
}

/**
 * `/metrics`, for whoever is on this machine: the numbers tell how busy whom is, and the gateway has the world as its
 * clients.
 */
function isForMetrics(request: ProxyRequest): boolean {
  const { host, method, target } = request;
  return target === '/metrics' && method === 'GET' && isOwnHost(host) && isOfThisMachine(request);
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
