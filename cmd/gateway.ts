/** Puts the gateway together: its control (actors/gateway), its listeners (transports/gateway), and the certificate between them. */
import type { ContainerTarget } from '../actors/gateway/deps.ts';
import { type Gateway, startGateway } from '../actors/gateway/service.ts';
import type { AnyEndpoint } from '../proto/endpoint.ts';
import type { Engine, Log } from '../proto/ports.ts';
import type { NewRoute, StaticRoute } from '../proto/routes.ts';
import type { Db } from '../storage/db.ts';
import { openPorts } from '../storage/gateway/open-ports.ts';
import { replaceManagedRoutes } from '../storage/gateway/routes.ts';
import type { SystemRef } from '../supervision/index.ts';
import { GatewayListeners } from '../transports/gateway/listeners.ts';
import { accessLine } from './access-log.ts';
import type { PlatformCertificate } from './certificates.ts';

/** What the gateway is built from. */
export interface GatewayOptions {
  readonly system: SystemRef;
  readonly db: Db;
  readonly engine: Engine;
  readonly log: Log;
  readonly domain: string;
  readonly host: string;
  readonly ports: { readonly http: number; readonly https: number };
  readonly certificate: PlatformCertificate;
  readonly fileRoutes: readonly StaticRoute[];
  readonly fallback: { readonly host: string; readonly port: number } | undefined;
  /** Where access log lines go; undefined: nowhere. */
  readonly accessLog: ((line: string) => void) | undefined;
  /** What is wrong with the bus, if anything. */
  readonly busProblem: () => string | undefined;
}

/** A gateway that serves. */
export interface RunningGateway {
  readonly ports: { readonly http: number; readonly https: number };
  readonly gateway: Gateway;
  /** Says so in `/readyz`, takes no new connections, lets answers under way finish, ends the rest. */
  stop(graceMs: number): Promise<void>;
}

/** Starts it. Rejects when a port is taken. */
export async function openGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { system, db, engine, log, domain, host, certificate, fileRoutes, fallback, accessLog, busProblem } = options;
  // What listeners ask before the control is there gets the answer of a gateway that knows nothing yet.
  let gateway: Gateway | undefined;
  const listeners = await GatewayListeners.open({
    host,
    ports: options.ports,
    log,
    route: (request) => gateway?.decide(request) ?? { reply: { status: 503, headers: [['Retry-After', '1']] } },
    decideName: (name, port) => {
      const decision = gateway?.decideName(name, port) ?? 'refuse';
      return decision === 'end' ? { end: certificate.context } : decision;
    },
    onAccess: (entry) => accessLog?.(accessLine(entry, new Date())),
    onLong: (connection) => gateway?.adopt(connection) ?? (() => {}),
  });
  try {
    gateway = await startGateway(
      system,
      {
        db,
        log,
        domain,
        fileRoutes,
        fallback,
        busProblem,
        ports: listeners.ports,
        containers: () => targets(db, engine),
      },
      () => void listeners.listenOn(gateway?.ingressPorts() ?? new Set()),
    );
  } catch (error) {
    await listeners.close(0);
    throw error;
  }
  const control = gateway;
  return {
    ports: listeners.ports,
    gateway: control,
    stop: async (graceMs) => {
      control.drain();
      await listeners.close(graceMs);
    },
  };
}

/** Containers that have a port open, with the address they have now. */
async function targets(db: Db, engine: Engine): Promise<ReadonlyMap<string, ContainerTarget>> {
  const rows = await openPorts(db);
  if (rows.length === 0) return new Map();
  const addresses = new Map(
    (await engine.list()).map(({ id, phase, address }) => [id, phase === 'running' ? address : null]),
  );
  const found = new Map<string, { address: string | undefined; ports: Map<number, number> }>();
  for (const { containerId, port, targetPort } of rows) {
    let target = found.get(containerId);
    if (target === undefined) {
      target = { address: addresses.get(containerId) ?? undefined, ports: new Map() };
      found.set(containerId, target);
    }
    target.ports.set(port, targetPort);
  }
  return found;
}

/** A service of the platform behind the gateway. */
export interface RoutedService {
  readonly name: string;
  readonly endpoints: readonly AnyEndpoint[];
  /** `host:port` of its listener. */
  readonly target: string;
}

/** Routes to the platform's own services: each by its host, and by its paths on the domain itself (design.md, section 7). */
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

/** The first two segments of a path, as far as they are fixed: `/api/tokens` of `/api/tokens/{id}`. */
function prefixOf(path: string): string {
  const segments = path.split('/').slice(1, 3);
  const variable = segments.findIndex((segment) => segment.startsWith('{'));
  return `/${(variable < 0 ? segments : segments.slice(0, variable)).join('/')}`;
}

/** Writes them down for all gateways. */
export function installServiceRoutes(db: Db, domain: string, services: readonly RoutedService[]): Promise<void> {
  return replaceManagedRoutes(db, serviceRoutes(domain, services));
}
