/**
 * Puts the gateway together: its control (actors/gateway), its listeners (transports/gateway), and the certificate
 * between them.
 */
import { Registry } from 'prom-client';
import type { ContainerTarget, GatewayDeps, MappingSource } from '../../actors/gateway/deps.ts';
import type { RoutedName } from '../../actors/gateway/routing.ts';
import { type Gateway, startGateway } from '../../actors/gateway/service.ts';
import { waitAtMost } from '../../lib/timeout.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import type { SignGatewayToken } from '../../proto/gateway/gateway-token.ts';
import type { NewRoute, StaticRoute } from '../../proto/gateway/routes.ts';
import type { UpstreamAddress } from '../../proto/gateway/traffic.ts';
import type { ContainerState, Engine } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import { prefixOf } from '../../proto/service-paths.ts';
import { computeNews } from '../../storage/compute/news.ts';
import type { Db } from '../../storage/db.ts';
import { openPorts, wantedContainers } from '../../storage/gateway/open-ports.ts';
import { replaceManagedRoutes, setNodeRoutes } from '../../storage/gateway/routes.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { ResponseCache, type ResponseCacheOptions } from '../../transports/gateway/cache/response-cache.ts';
import { type FrontProxies, GatewayListeners } from '../../transports/gateway/listeners.ts';
import { SshGateway } from '../../transports/gateway/ssh/gateway.ts';
import { accessLine } from '../observability/access-log.ts';
import { gatewayMetrics } from '../observability/gateway-metrics.ts';
import { copyListener } from './listener-copies.ts';
import type { LiveCertificate } from './live-certificate.ts';
import type { MappedTls } from './mapped-tls.ts';

/** A port for each of its listeners. */
export interface GatewayPorts {
  readonly http: number;
  readonly https: number;
  readonly ssh: number;
}

/** What the gateway is built from. */
interface GatewayOptions {
  readonly system: SystemRef;
  readonly db: Db;
  readonly engine: Pick<Engine, 'list' | 'inspect' | 'dial'>;
  readonly log: Log;
  readonly domain: string;
  readonly host: string;
  readonly ports: GatewayPorts;
  readonly certificate: Pick<LiveCertificate, 'context'>;
  /** Private keys of the SSH server, and the platform's, which opens containers; undefined: there is no SSH here. */
  readonly sshKeys: { readonly host: readonly string[]; readonly platform: string } | undefined;
  readonly fileRoutes: readonly StaticRoute[];
  /** Routes to the services of this process, which it prefers to another's. */
  readonly ownRoutes?: readonly NewRoute[] | undefined;
  readonly fallback: { readonly host: string; readonly port: number } | undefined;
  /** Where access log lines go; undefined: nowhere. */
  readonly accessLog: ((line: string) => void) | undefined;
  /** Whether responses are kept (docs/reference/gateway-cache.md). */
  readonly isCaching: boolean;
  /** Origins that answer all clients alike, as the operator says; none without it. */
  readonly sharedOrigins?: ResponseCacheOptions['sharedOrigins'] | undefined;
  /** Numbers of the process, shown beside the gateway's own. */
  readonly processRegistry: Registry;
  /** Proxies in front of the gateway. */
  readonly proxies: FrontProxies | undefined;
  /** Origins that are asked for several things at a time on one connection; none without it. */
  readonly pipelined?: readonly UpstreamAddress[] | undefined;
  /** Of the platform: marks requests that were sent on, so that those that come back are known. */
  readonly installation?: string | undefined;
  /** Vouches for clients to the services of the platform. */
  readonly vouch: SignGatewayToken;
  /** Mapped hosts and their certificates; undefined: there are none. */
  readonly mapped?: { readonly mappings: MappingSource; readonly tls: MappedTls } | undefined;
  /** What is wrong with the bus, if anything. */
  readonly busProblem: () => string | undefined;
}

/** A gateway that serves. */
export interface RunningGateway {
  readonly ports: GatewayPorts;
  readonly gateway: Gateway;
  /** Says so in `/readyz`, takes no new connections, lets answers under way finish, ends the rest. */
  stop(graceMs: number): Promise<void>;
}

/** Its SSH server; undefined without keys. What it asks before the control is there is not available. */
function sshOf({ sshKeys, engine, log }: GatewayOptions, control: () => Gateway | undefined): SshGateway | undefined {
  if (sshKeys === undefined) return undefined;
  return new SshGateway({
    hostKeys: sshKeys.host,
    containers: {
      dial: engine.dial.bind(engine),
      privateKey: async () => sshKeys.platform,
      username: 'root',
      log,
    },
    door: {
      ask: async (question) => control()?.ssh.ask(question) ?? { kind: 'unavailable' },
      find: async (question) => control()?.ssh.find(question) ?? { kind: 'unavailable' },
      adopt: (connection) => control()?.ssh.adopt(connection),
    },
    log,
  });
}

/** Starts it. Rejects when a port is taken. */
export async function openGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { system, db, engine, log, domain, host, certificate, fileRoutes, fallback, accessLog, proxies, vouch } =
    options;
  const { processRegistry, busProblem } = options;
  // What listeners ask before the control is there gets the answer of a gateway that knows nothing yet.
  let gateway: Gateway | undefined;
  const cache = options.isCaching ? new ResponseCache({ sharedOrigins: options.sharedOrigins ?? [] }) : undefined;
  // Of its own: the services show theirs to whoever reaches them.
  const registry = new Registry();
  const metrics = gatewayMetrics(registry, domain);
  const ssh = sshOf(options, () => gateway);
  /** The certificate of a name that TLS is ended for. */
  const certified = (decision: RoutedName, name: string | undefined, isChallenge: boolean) => {
    if (typeof decision === 'object') return decision;
    // Authorities ask for names that this gateway may not have heard of yet.
    if (isChallenge)
      return name === undefined || options.mapped === undefined ? 'refuse' : options.mapped.tls.challenge(name);
    if (decision === 'mapped')
      return name === undefined ? 'refuse' : (options.mapped?.tls.certificate(name) ?? 'refuse');
    return decision === 'end' ? { end: certificate.context } : decision;
  };
  const listeners = await GatewayListeners.open({
    host,
    ssh,
    ports: options.ports,
    log,
    loopId: options.installation === undefined ? undefined : `troupe-${options.installation}`,
    proxies,
    pipelined: options.pipelined,
    copyListener,
    route: (request) => {
      if (gateway === undefined) return { reply: { status: 503, headers: [['Retry-After', '1']] } };
      const decision = gateway.decide(request);
      if (decision instanceof Promise || 'reply' in decision || decision.isVouched !== true) return decision;
      return { ...decision, vouch };
    },
    decideName: (name, port, isChallenge) => {
      const decision = gateway?.decideName(name, port) ?? 'refuse';
      if (decision instanceof Promise) return decision.then((later) => certified(later, name, isChallenge));
      return certified(decision, name, isChallenge);
    },
    cache,
    onAccess: (entry) => {
      metrics.onAccess(entry);
      accessLog?.(accessLine(entry, new Date()));
    },
    onLong: (connection) => gateway?.adopt(connection) ?? (() => {}),
  });
  metrics.watch(listeners, cache);
  try {
    let isShown: () => void = () => {};
    const shown = new Promise<void>((resolve) => {
      isShown = resolve;
    });
    gateway = await startGateway(
      system,
      {
        db,
        log,
        domain,
        ownRoutes: options.ownRoutes,
        fileRoutes,
        fallback,
        busProblem,
        ports: listeners.ports,
        containers: containerTargets(db, engine),
        mappings: options.mapped?.mappings,
        computeNews: computeNews(db),
        metrics: async () => `${await processRegistry.metrics()}\n${await registry.metrics()}`,
      },
      () => {
        isShown();
        void listeners.listenOn(gateway?.ingressPorts() ?? new Set());
      },
    );
    // Whoever is told that the gateway is there finds its routes; without them it says so in /readyz.
    await waitAtMost(shown, FIRST_PICTURE_MS);
    await listeners.listenOn(gateway.ingressPorts());
  } catch (error) {
    await listeners.close(0);
    cache?.close();
    throw error;
  }
  const control = gateway;
  return {
    ports: listeners.ports,
    gateway: control,
    stop: async (graceMs) => {
      control.drain();
      await listeners.close(graceMs);
      cache?.close();
    },
  };
}

/** How long a start waits for the first look at routes and containers, ms. */
const FIRST_PICTURE_MS = 5000;

/** Containers that are asked about one by one; for more, one question about all is cheaper. */
const FEW = 20;

/**
 * Finds containers that have a port open, with the address they have now: none once they are to stop, since others may
 * get it next.
 */
function containerTargets(db: Db, engine: Pick<Engine, 'list' | 'inspect'>): GatewayDeps['containers'] {
  /** Addresses of those that run, as they were seen last. */
  let known = new Map<string, string>();
  const note = (id: string, state: Pick<ContainerState, 'phase' | 'address'> | undefined) => {
    if (state?.phase === 'running' && state.address !== null) known.set(id, state.address);
    else known.delete(id);
  };
  return async (also, changed) => {
    const rows = await openPorts(db);
    const ids = [...new Set([...also, ...rows.map(({ containerId }) => containerId)])];
    if (ids.length === 0) return new Map();
    const unsure =
      changed === 'all'
        ? undefined
        : await wantedContainers(
            db,
            ids.filter((id) => changed.has(id) || !known.has(id)),
          );
    if (unsure !== undefined && unsure.size <= FEW)
      await Promise.all([...unsure.keys()].map(async (id) => note(id, await engine.inspect(id))));
    else {
      known = new Map();
      for (const state of await engine.list()) note(state.id, state);
    }
    // Asked last: what was to stop by now may be listed as it was before.
    const wanted = await wantedContainers(db, ids);
    const addressOf = (id: string) => (wanted.has(id) ? known.get(id) : undefined);
    return targets(rows, also, addressOf, (id) => wanted.get(id));
  };
}

function targets(
  rows: Awaited<ReturnType<typeof openPorts>>,
  also: ReadonlySet<string>,
  addressOf: (id: string) => string | undefined,
  statusOf: (id: string) => string | undefined,
): ReadonlyMap<string, ContainerTarget> {
  const found = new Map<string, ContainerTarget & { ports: Map<number, number> }>();
  const targetOf = (id: string) => {
    let target = found.get(id);
    if (target === undefined) {
      const [address, status] = [addressOf(id), statusOf(id)];
      const isComing = address === undefined && status !== undefined && status !== 'failed' && status !== 'stopped';
      target = { address, isComing, ports: new Map() };
      found.set(id, target);
    }
    return target;
  };
  for (const id of also) targetOf(id);
  for (const { containerId, port, targetPort } of rows) targetOf(containerId).ports.set(port, targetPort);
  return found;
}

/** A service of the platform behind the gateway. */
interface RoutedService {
  readonly name: string;
  readonly endpoints: readonly AnyEndpoint[];
  /** `host:port` of its listener. */
  readonly target: string;
}

/**
 * Routes to the platform's own services: each by its host, and by its paths on the domain itself.
 */
export function serviceRoutes(domain: string, services: readonly RoutedService[]): NewRoute[] {
  return services.flatMap(({ name, endpoints, target }) => {
    const common = { target, strip_prefix: false, priority: 0 };
    const prefixes = new Set(endpoints.map(({ path }) => prefixOf(path)));
    return [
      { ...common, host: `${name}.${domain}`, path_prefix: '/' },
      ...[...prefixes].map((path_prefix) => ({ ...common, host: domain, path_prefix })),
    ];
  });
}

/**
 * Writes them down for all gateways: as those of the node `id`, which count while it lives, and for whoever lists them.
 */
export async function installServiceRoutes(
  db: Db,
  id: string,
  domain: string,
  services: readonly RoutedService[],
): Promise<void> {
  const routes = serviceRoutes(domain, services);
  await replaceManagedRoutes(db, routes);
  await setNodeRoutes(db, id, routes);
}
