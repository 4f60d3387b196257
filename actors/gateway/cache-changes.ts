/** Whose answers are kept in another way than before: what is kept of them is to be forgotten. */
import { addressOf, type RouteTable } from '../../proto/gateway/routes.ts';
import type { ContainerTarget } from './deps.ts';
import type { RouteSnapshot } from './routing.ts';

type Caches = NonNullable<ContainerTarget['caches']>;
const NONE: Caches = new Map();

/** Whether two containers have the same kept at each port. */
export function hasSameCaches({ caches: one = NONE }: ContainerTarget, { caches: other = NONE }: ContainerTarget) {
  if (one.size !== other.size) return false;
  for (const [port, cache] of one) if (other.get(port) !== cache) return false;
  return true;
}

/** The hosts of origins that a way in leads to whose `cache` is another than before. */
export function recachedOrigins(before: RouteSnapshot | undefined, now: RouteSnapshot): Set<string> {
  const hosts = new Set<string>();
  const add = (host: string | undefined) => {
    if (host !== undefined) hosts.add(host);
  };
  if (before === undefined) return hosts;
  for (const [id, is] of now.containers) {
    const was = before.containers.get(id);
    if (was !== undefined && was !== is && !hasSameCaches(was, is)) add(is.address);
  }
  if (before.mapped !== now.mapped)
    for (const [hostname, { containerId, cache }] of now.mapped ?? []) {
      const was = before.mapped?.get(hostname);
      if (was !== undefined && was.cache !== cache) add(now.containers.get(containerId)?.address);
    }
  const [routes, routesNow] = [cachesOf(before.routes), cachesOf(now.routes)];
  for (const [key, { target, cache }] of routesNow) {
    const was = routes.get(key);
    if (was !== undefined && was.cache !== cache) add(addressOf(target).host);
  }
  return hosts;
}

function cachesOf({ routes }: RouteTable) {
  return new Map(routes.map((route) => [`${route.host} ${route.path_prefix} ${route.target}`, route]));
}
