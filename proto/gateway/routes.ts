/** Static routes: how a request finds its service, as a frozen table that is swapped whole. */
import { z } from 'zod';
import { cacheModeSchema } from './cache-mode.ts';

const host = z
  .string()
  .toLowerCase()
  .regex(
    /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/,
    'must be a host name without a port',
  );

const prefix = z
  .string()
  .max(1024, 'must be at most 1024 characters')
  .regex(/^\/[!$-;=@-[\]_a-z~]*$/, 'must begin with "/" and hold neither "?", "#" nor spaces');

/** A target, `<service>:<port>`; an IPv6 address stands in brackets. */
export const targetSchema = z
  .string()
  .regex(/^([a-zA-Z0-9_.-]{1,253}|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$/, 'must be <host>:<port>')
  .refine((text) => {
    const port = Number(text.slice(text.lastIndexOf(':') + 1));
    return port >= 1 && port <= 65_535;
  }, 'must have a port from 1 to 65535');

/** A route as it is written down, before it has an id. */
export const newRouteSchema = z.object({
  host,
  path_prefix: prefix,
  target: targetSchema,
  strip_prefix: z.boolean().default(false),
  priority: z.int().min(-1_000_000).max(1_000_000).default(0),
  /** What the response cache keeps of its answers. Absent: `default`. */
  cache: cacheModeSchema.optional(),
});
export type NewRoute = z.output<typeof newRouteSchema>;

/** Routes of a file. */
export const routesFileSchema = z.array(newRouteSchema.omit({ path_prefix: true }).extend({ path: prefix }));

/** A route. */
export interface StaticRoute extends NewRoute {
  /** Absent when it came from a file. */
  readonly id?: number;
  /** Whether it leads to a service of the platform, which wrote it down itself. */
  readonly managed?: boolean;
}

/** Where a request goes. */
export interface RouteMatch {
  readonly route: StaticRoute;
  readonly address: { readonly host: string; readonly port: number };
}

interface Prepared extends RouteMatch {
  readonly prefix: string;
}

/** All static routes at one moment. Never changed: another table takes its place. */
export class RouteTable {
  readonly routes: readonly StaticRoute[];
  readonly #byHost = new Map<string, Prepared[]>();

  /** `routes` in any order: the highest priority comes first, and of equals the one that was written down first. */
  constructor(routes: readonly StaticRoute[]) {
    const order = [...routes].sort((a, b) => b.priority - a.priority || (a.id ?? 0) - (b.id ?? 0));
    this.routes = Object.freeze(order);
    for (const route of order) {
      const prepared = { route, address: addressOf(route.target), prefix: route.path_prefix };
      const known = this.#byHost.get(route.host);
      if (known === undefined) this.#byHost.set(route.host, [prepared]);
      else known.push(prepared);
    }
  }

  /** Whether any route is for this host. */
  hasHost(host: string): boolean {
    return this.#byHost.has(host);
  }

  /** The first route, by priority, whose host is exactly this and whose prefix begins the path (rules 1 to 4). */
  match(host: string, path: string): RouteMatch | undefined {
    return this.#byHost.get(host)?.find(({ prefix }) => path.startsWith(prefix));
  }
}

/** What to ask the origin for: `strip_prefix` takes the prefix away (rule 6), and what is left begins with `/`. */
export function strippedTarget(route: StaticRoute, target: string): string {
  if (!route.strip_prefix) return target;
  const rest = target.slice(route.path_prefix.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** Host and port of a target. */
export function addressOf(target: string): { host: string; port: number } {
  const colon = target.lastIndexOf(':');
  return { host: target.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(target.slice(colon + 1)) };
}

/** The path of a target, without its query. */
export function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query < 0 ? target : target.slice(0, query);
}
