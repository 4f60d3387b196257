/** Where the platform's own services are reached through its gateway: their hosts and the paths of their endpoints. */
import { runtimeEndpoints } from './auth/actors.ts';
import { authEndpoints } from './auth/endpoints.ts';
import { platformFactsEndpoints } from './auth/platform.ts';
import { registryToken } from './auth/registry.ts';
import { computeEndpoints } from './compute/endpoints.ts';
import type { AnyEndpoint } from './endpoint.ts';
import type { NewRoute } from './gateway/routes.ts';
import { monitorEndpoints } from './monitor/endpoints.ts';
import { networkEndpoints } from './network/endpoints.ts';
import { notifyEndpoints } from './notify/endpoints.ts';
import type { LocalRegistry } from './ports/local-registry.ts';

/** Their names, as in their hosts. */
export const SERVICE_NAMES = ['auth', 'compute', 'net', 'monitor', 'notify'] as const;

/** Name of a service. */
export type RoutedServiceName = (typeof SERVICE_NAMES)[number];

/** The host of a service under the platform's domain. */
export const serviceHost = (name: RoutedServiceName, domain: string): string => `${name}.${domain.toLowerCase()}`;

/** The hosts of all other services. */
export function hostsOfOthers(name: string, domain: string): ReadonlySet<string> {
  return new Set(SERVICE_NAMES.filter((other) => other !== name).map((other) => serviceHost(other, domain)));
}

/** The first two segments of an endpoint's path, as far as they are fixed: `/api/tokens` of `/api/tokens/{id}`. */
function prefixOf(path: string): string {
  const segments = path.split('/').slice(1, 3);
  const variable = segments.findIndex((segment) => segment.startsWith('{'));
  return `/${(variable < 0 ? segments : segments.slice(0, variable)).join('/')}`;
}

const prefixes: ReadonlySet<string> = new Set(
  [
    ...authEndpoints,
    ...platformFactsEndpoints,
    ...computeEndpoints,
    ...monitorEndpoints,
    ...networkEndpoints,
    ...notifyEndpoints,
    ...runtimeEndpoints,
  ].map(({ path }) => prefixOf(path)),
);

/** Whether a path is one at which a service of the platform answers. */
export function isServicePath(path: string): boolean {
  const second = path.indexOf('/', 1);
  if (second < 0) return prefixes.has(path);
  const third = path.indexOf('/', second + 1);
  return prefixes.has(path.slice(0, second)) || prefixes.has(third < 0 ? path : path.slice(0, third));
}

/** A service of the platform behind the gateway. */
interface RoutedService {
  readonly name: string;
  readonly endpoints: readonly AnyEndpoint[];
  /** `host:port` of its listener. */
  readonly target: string;
}

/** Routes to the platform's own services: each by its host, and by its paths on the domain itself. */
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

/** The host of the registry that comes along. */
export const registryHostOf = (domain: string): string => `registry.${domain.toLowerCase()}`;

/**
 * Where that registry sends its clients for a token, on the host by which they reached it (Distribution's
 * `autoredirect`); and the endpoint of the authentication service that answers there.
 */
export const REGISTRY_REALM = { path: '/auth/token', endpoint: registryToken.path } as const;

/** The route to that registry. */
export function registryRoute({ host, address }: LocalRegistry): NewRoute {
  return { host, path_prefix: '/', target: address, strip_prefix: false, priority: 0 };
}
