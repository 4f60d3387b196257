/**
 * Where traffic goes, decided from an immutable snapshot of routes and containers. A new snapshot replaces the one
 * before as a whole, and no connection notices.
 */
import { LRUCache } from 'lru-cache';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import type { Entrance, IngressListeners, NameDecision } from '../../proto/gateway/gateway-decider.ts';
import type { PortGuard } from '../../proto/gateway/port-guard.ts';
import {
  pathOf,
  type RouteMatch,
  type RouteTable,
  type StaticRoute,
  strippedTarget,
} from '../../proto/gateway/routes.ts';
import type { ProxyDecision, ProxyReply, ProxyRequest, UpstreamAddress } from '../../proto/gateway/traffic.ts';
import { ID_PATTERN } from '../../proto/ids.ts';
import type { MappedHost } from '../../proto/ports/acme.ts';
import {
  isServicePath,
  REGISTRY_REALM,
  registryHostOf,
  SERVICE_NAMES,
  serviceHost,
} from '../../proto/service-paths.ts';
import { consoleReply } from './console.ts';
import type { ContainerTarget, GatewayDeps } from './deps.ts';
import { devicePage } from './device-page.ts';
import { guardAt } from './guards/mapped-guard.ts';
import { CLOSED } from './guards/replies.ts';
import { landingPage } from './landing.ts';
import { isBrowserAtHome } from './own-machine.ts';

/** Matches remembered by host and path. */
const CACHE_SIZE = 100;

/** The answer for a container that has no address. */
export const NOT_RUNNING: ProxyDecision = {
  reply: { status: 503, headers: [['Retry-After', '5']], body: 'The container is not running.\n' },
};

/** The ids of containers by their readable name. */
export function namesIn(containers: RouteSnapshot['containers'] | undefined): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const [id, { addressName }] of containers ?? []) if (addressName !== undefined) names.set(addressName, id);
  return names;
}

/** What is known at one moment. */
export interface RouteSnapshot {
  readonly routes: RouteTable;
  readonly containers: ReadonlyMap<string, ContainerTarget>;
  /** Verified mappings by hostname. */
  readonly mapped?: ReadonlyMap<string, MappedHost>;
}

/** With `guard`: whoever asks has to be let in there first. Until then nobody gets more than this reply. */
type RoutedDecision = ProxyDecision | { readonly reply: ProxyReply; readonly guard: PortGuard };

/** What a decision depends on besides the snapshot. `ports`: our own; the outside knows them as 80 and 443. */
interface RoutingOptions
  extends Pick<
    GatewayDeps,
    'fallback' | 'domain' | 'containersDomain' | 'gatewayToken' | 'console' | 'strictTransport'
  > {
  readonly ports: IngressListeners['ports'];
}

/** Decides from the present snapshot. */
export class Routing {
  readonly #options: RoutingOptions;
  readonly #containerSuffix: string;
  readonly #tenantOf: readonly string[];
  readonly #domain: string;
  /** Hosts whose routes lead to services of the platform. */
  readonly #serviceHosts: ReadonlySet<string>;
  readonly #registryHost: string;
  readonly #cache = new LRUCache<string, RouteMatch>({ max: CACHE_SIZE });
  #snapshot: RouteSnapshot | undefined;
  /** Containers by their readable name. */
  #names: ReadonlyMap<string, string> = new Map();

  readonly #onSwap: () => void;

  /** `onSwap` is called after each new snapshot. */
  constructor(options: RoutingOptions, onSwap: () => void = () => {}) {
    const { domain, containersDomain } = options;
    this.#onSwap = onSwap;
    this.#options = options;
    this.#domain = domain;
    this.#serviceHosts = new Set([domain, ...SERVICE_NAMES.map((name) => serviceHost(name, domain))]);
    this.#registryHost = registryHostOf(domain);
    this.#containerSuffix = `.${containersDomain}`;
    this.#tenantOf = [domain, containersDomain];
  }

  /** Whether anything is known yet. */
  get isReady(): boolean {
    return this.#snapshot !== undefined;
  }

  /** Replaces the snapshot, and forgets remembered matches. */
  swap(snapshot: RouteSnapshot): void {
    this.#snapshot = snapshot;
    this.#names = namesIn(snapshot.containers);
    this.#cache.clear();
    this.#onSwap();
  }

  get snapshot(): RouteSnapshot | undefined {
    return this.#snapshot;
  }

  /** Whether a host is the platform's own. */
  isPlatformHost(host: string): boolean {
    return this.#serviceHosts.has(host) || host === this.#registryHost;
  }

  /** Decides about a request. `admitted`: the rule at which it was let in. */
  decide(request: ProxyRequest, admitted?: number): RoutedDecision {
    const decision = this.#route(request, admitted);
    const { strictTransport } = this.#options;
    return strictTransport !== undefined && this.#isOnOurTls(request)
      ? withStrictTransport(decision, strictTransport)
      : decision;
  }

  /**
   * Whether a name of the platform is asked for with the certificate of the platform. Behind a proxy that ends TLS the
   * client saw another one: such requests come to the port for plain HTTP.
   */
  #isOnOurTls({ host, port, isEncrypted }: ProxyRequest): boolean {
    if (!isEncrypted || port !== this.#options.ports.https) return false;
    return this.isPlatformHost(host);
  }

  #route(request: ProxyRequest, admitted: number | undefined): RoutedDecision {
    const { host, hostPort, target, port } = request;
    const isEncrypted = request.isEncrypted || this.#isConsoleAtHome(request);
    const id = this.#containerOf(host);
    if (id !== undefined) return this.#toContainer(id, request, admitted);
    if (this.#snapshot?.routes.hasHost(host)) {
      // Services are for HTTPS: the same request, method and body, is to come again there.
      if (!isEncrypted) return redirect(`https://${host}${this.#httpsPort(hostPort)}${target}`);
      const match = this.#match(host, pathOf(target));
      if (match !== undefined)
        return (
          this.#registryToken(match.route, host, target) ?? {
            forward: match.address,
            target: strippedTarget(match.route, target),
            ...(match.route.managed === true ? { isService: true } : {}),
            ...(match.route.cache === undefined ? {} : { cache: match.route.cache }),
            ...(this.#isService(match.route, host, target) ? { gatewayToken: this.#options.gatewayToken } : {}),
          }
        );
    }
    const mapped = this.#mappedHost(host, port);
    if (mapped !== undefined) {
      if (!isEncrypted) return redirect(`https://${host}${this.#httpsPort(hostPort)}${target}`);
      return this.#guarded(guardAt(this.#snapshot, mapped), admitted, () =>
        this.#forwardTo(mapped.containerId, this.#insideOf(mapped), target, mapped.cache),
      );
    }
    const own = host === this.#domain && isEncrypted ? this.#ownReply(request) : undefined;
    if (own !== undefined) return { reply: own };
    const { fallback } = this.#options;
    if (fallback !== undefined) return { forward: fallback, target };
    if (host === this.#domain && isEncrypted && isLanding(request)) return { reply: this.#landing(hostPort) };
    return { reply: { status: 404, body: 'There is nothing at this address.\n' } };
  }

  /** The platform's own registry sends its clients to a path of its host: the authentication service answers there. */
  #registryToken({ managed }: StaticRoute, host: string, target: string): ProxyDecision | undefined {
    const { path, endpoint } = REGISTRY_REALM;
    if (managed !== true || host !== this.#registryHost || pathOf(target) !== path) return undefined;
    const match = this.#match(this.#domain, endpoint);
    if (match === undefined) return undefined;
    const { gatewayToken } = this.#options;
    return { forward: match.address, target: endpoint + target.slice(path.length), isService: true, gatewayToken };
  }

  /** The console's pages work over plain HTTP, too, where nobody is between the browser and this gateway. */
  #isConsoleAtHome(request: ProxyRequest): boolean {
    return this.#options.console !== undefined && request.host === this.#domain && isBrowserAtHome(request);
  }

  /** What the gateway itself shows at the domain, after all routes and before the fallback. */
  #ownReply(request: ProxyRequest): ProxyReply | undefined {
    const { console } = this.#options;
    if (console !== undefined) return consoleReply(console, request);
    return isRead(request) ? devicePage(pathOf(request.target)) : undefined;
  }

  /**
   * Whether a service of the platform answers: on the platform's own routes, and where an operator leads its paths to a
   * service that runs alone. Other backends of an operator get no token, nor does one with a stripped prefix, which is
   * asked for another path than the client asked for.
   */
  #isService(route: StaticRoute, host: string, target: string): boolean {
    if (!this.#serviceHosts.has(host)) return false;
    return route.managed === true || (!route.strip_prefix && isServicePath(pathOf(target)));
  }

  #landing(hostPort: number | undefined): ProxyReply {
    return landingPage({
      domain: this.#domain,
      port: hostPort === undefined || hostPort === 443 ? '' : `:${hostPort}`,
      sshPort: this.#options.ports.ssh,
      has: (host) => this.#snapshot?.routes.hasHost(host) === true,
    });
  }

  /** Decides about a TLS connection to `serverName` on our `port`. */
  decideName(serverName: string | undefined, port: number): NameDecision {
    if (serverName === undefined) return 'refuse';
    const id = this.#containerOf(serverName);
    if (id !== undefined) {
      const external = this.#external(port);
      if (this.#endsTls(id, external)) return 'platform';
      const to = this.#addressOf(id, external);
      return typeof to === 'string' ? 'refuse' : { passTo: to, containerId: id };
    }
    if (this.#snapshot?.routes.hasHost(serverName)) return 'platform';
    if (this.#mappedHost(serverName, port) !== undefined) return 'mapped';
    // The fallback answers for names of the platform that have no route.
    return this.#options.fallback !== undefined && this.#isOurs(serverName) ? 'platform' : 'refuse';
  }

  /** What the outside calls our port. */
  #external(port: number): number {
    const { http, https } = this.#options.ports;
    return port === http ? 80 : port === https ? 443 : port;
  }

  /** The port of a redirect: our HTTPS port for a client that named our HTTP port, the usual one for all others. */
  #httpsPort(asked: number | undefined): string {
    const { http, https } = this.#options.ports;
    return asked !== undefined && asked === http ? `:${https}` : '';
  }

  #isOurs(name: string): boolean {
    return name === this.#domain || name.endsWith(`.${this.#domain}`);
  }

  #containerOf(host: string): string | undefined {
    if (!host.endsWith(this.#containerSuffix)) return undefined;
    const label = host.slice(0, -this.#containerSuffix.length);
    if (ID_PATTERN.test(label)) return label;
    // A host that the operator leads elsewhere stays the operator's.
    return this.#snapshot?.routes.hasHost(host) === true ? undefined : this.#names.get(label);
  }

  #toContainer(id: string, request: ProxyRequest, admitted: number | undefined): RoutedDecision {
    const { host, hostPort, port, target, isEncrypted } = request;
    const asked = this.#external(port);
    // A proxy in front that ended TLS on 443 comes to our port for plain HTTP.
    const external = isEncrypted && asked === 80 && this.#endsTls(id, 443) ? 443 : asked;
    if (!isEncrypted) {
      if (this.#endsTls(id, external)) return redirect(`https://${host}:${external}${target}`);
      const isOpen = this.#snapshot?.containers.get(id)?.ports.has(external) === true;
      if (external === 80 && !isOpen && this.#endsTls(id, 443))
        return redirect(`https://${host}${this.#httpsPort(hostPort)}${target}`);
    }
    return this.#guarded(this.#snapshot?.containers.get(id)?.guards?.get(external), admitted, () =>
      this.#forwardTo(id, this.#addressOf(id, external), target, this.#cacheOf(id, external)),
    );
  }

  /** Where a request goes whose way has this guard: nowhere before its rule has let it in. */
  #guarded(guard: PortGuard | undefined, admitted: number | undefined, onward: () => ProxyDecision): RoutedDecision {
    if (guard === undefined) return onward();
    if (guard.rule !== admitted) return { reply: CLOSED, guard };
    const decision = onward();
    return 'forward' in decision ? { ...decision, isGuarded: true, rule: guard.rule } : decision;
  }

  /**
   * Whether what came in by this way might still come in: its host leads to the same container, its port is open, and
   * asks for nothing else.
   */
  admits({ host, port, isEncrypted, containerId, rule }: Entrance): boolean {
    const id = this.#containerOf(host);
    const mapped = id === undefined ? this.#mappedHost(host, port) : undefined;
    if ((id ?? mapped?.containerId) !== containerId) return false;
    const container = this.#snapshot?.containers.get(containerId);
    if (mapped !== undefined) return guardAt(this.#snapshot, mapped)?.rule === rule;
    if (id === undefined) return false;
    const asked = this.#external(port);
    const external = isEncrypted && asked === 80 && this.#endsTls(id, 443) ? 443 : asked;
    return container?.ports.has(external) === true && container.guards?.get(external)?.rule === rule;
  }

  /** The origin of the console, as a browser reaches it that made this request. */
  consoleOf({ port, hostPort }: ProxyRequest): string {
    const { https } = this.#options.ports;
    // On a port of a container nothing tells what the outside calls ours. Only on this machine is it surely the same.
    const atHome = /(?:^|\.)localhost$/.test(this.#domain) ? https : undefined;
    const asked = port === https ? hostPort : atHome;
    return `https://${this.#domain}${asked === undefined || asked === 443 ? '' : `:${asked}`}`;
  }

  /** Whether a container leaves TLS to the gateway at an external port. */
  #endsTls(id: string, external: number): boolean {
    return this.#snapshot?.containers.get(id)?.endsTls?.has(external) === true;
  }

  /** The container that requests to `host` on our `port` are for, if there is one; whether it runs or not. */
  containerAt(host: string, port: number): string | undefined {
    return this.#containerOf(host) ?? this.#mappedHost(host, port)?.containerId;
  }

  #cacheOf(id: string, external: number): CacheMode | undefined {
    return this.#snapshot?.containers.get(id)?.caches?.get(external);
  }

  #forwardTo(
    containerId: string,
    to: UpstreamAddress | 'closed' | 'not_running',
    target: string,
    cache: CacheMode | undefined,
  ): ProxyDecision {
    if (typeof to === 'object') {
      const onward = { forward: to, target, tenantOf: this.#tenantOf, containerId };
      return cache === undefined ? onward : { ...onward, cache };
    }
    // Whether there is such a container is not told to those who may not know.
    if (to === 'closed') return { reply: { status: 404, body: 'There is nothing at this address.\n' } };
    return NOT_RUNNING;
  }

  /** The mapping of a host, on the ports where mapped hosts are served. */
  #mappedHost(host: string, port: number): MappedHost | undefined {
    const { http, https } = this.#options.ports;
    return port === http || port === https ? this.#snapshot?.mapped?.get(host) : undefined;
  }

  /** Where a mapped host leads: through the container's ingress rule for its port if there is one, else to the port. */
  #insideOf({ containerId, targetPort }: MappedHost): UpstreamAddress | 'not_running' {
    const container = this.#snapshot?.containers.get(containerId);
    if (container?.address === undefined) return 'not_running';
    return { host: container.address, port: container.ports.get(targetPort) ?? targetPort };
  }

  #addressOf(id: string, external: number): UpstreamAddress | 'closed' | 'not_running' {
    const container = this.#snapshot?.containers.get(id);
    const inside = container?.ports.get(external);
    if (container === undefined || inside === undefined) return 'closed';
    return container.address === undefined ? 'not_running' : { host: container.address, port: inside };
  }

  #match(host: string, path: string): RouteMatch | undefined {
    const key = `${host} ${path}`;
    const known = this.#cache.get(key);
    if (known !== undefined) return known;
    const match = this.#snapshot?.routes.match(host, path);
    // A long path is matched as fast as it is remembered, and must not fill the memory.
    if (match !== undefined && key.length <= 1024) this.#cache.set(key, match);
    return match;
  }
}

/** The decision, whose answer has the browser use HTTPS at this host from then on (RFC 6797). */
function withStrictTransport(decision: RoutedDecision, value: string): RoutedDecision {
  if ('forward' in decision) return { ...decision, strictTransport: value };
  const { reply } = decision;
  const headers = [...(reply.headers ?? []), ['Strict-Transport-Security', value] as const];
  return { ...decision, reply: { ...reply, headers } };
}

/** Whether the page of the platform itself is asked for. */
function isLanding(request: ProxyRequest): boolean {
  return isRead(request) && pathOf(request.target) === '/';
}

function isRead({ method }: ProxyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Same method, same body, at another address (RFC 9110, section 15.4.9). */
function redirect(location: string): ProxyDecision {
  return { reply: { status: 308, headers: [['Location', location]], body: `Use ${location}\n` } };
}
