/** `troupe routes add|list|remove`: static routes of the gateway. A running gateway has a change at once. */
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import { newRouteSchema } from '../../proto/gateway/routes.ts';
import { audit } from '../../storage/audit.ts';
import { deleteRoute, insertRoute, listRoutes } from '../../storage/gateway/routes.ts';
import { CliError } from '../config/cli-error.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';

const OPERATOR = { userId: null, username: 'operator' } as const;

/** What a route is added with. */
export interface AddOptions extends CommandOptions {
  readonly stripPrefix?: boolean;
  readonly priority: number;
  readonly cache?: CacheMode;
}

/** Adds a route; prints its id. */
export async function routesAdd(host: string, pathPrefix: string, target: string, options: AddOptions): Promise<void> {
  const parsed = newRouteSchema.safeParse({
    host,
    path_prefix: pathPrefix,
    target,
    strip_prefix: options.stripPrefix === true,
    priority: options.priority,
    cache: options.cache,
  });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new CliError(
      `The ${issue?.path.join('.').replace('_', ' ') ?? 'route'} ${issue?.message ?? 'is not valid'}.`,
    );
  }
  const route = parsed.data;
  const id = await onDatabase(options, (db) =>
    db.tx(async (tx) => {
      const added = await insertRoute(tx, route);
      if (added !== undefined)
        await audit(tx, { ...OPERATOR, action: 'route.add', target: String(added), detail: route });
      return added;
    }),
  );
  if (id === undefined) {
    throw new CliError(
      `There is a route for ${route.host} ${route.path_prefix} with priority ${route.priority} already: remove it ` +
        'first, or give another --priority.',
    );
  }
  print(options, { id, ...route }, () => `Added route ${id}.`);
}

/** Prints all routes in the order of matching. */
export async function routesList(options: CommandOptions): Promise<void> {
  const routes = await onDatabase(options, listRoutes);
  const rows = routes.map(({ id, priority, host, path_prefix, target, strip_prefix, managed, cache }) => [
    String(id),
    String(priority),
    host,
    path_prefix,
    target,
    [
      ...(strip_prefix ? ['strips the prefix'] : []),
      ...(managed ? ['the platform’s own'] : []),
      ...(cache === undefined ? [] : [`cache ${cache}`]),
    ].join(', '),
  ]);
  print(options, routes, () => tableLines(['ID', 'PRIORITY', 'HOST', 'PATH', 'TARGET', ''], rows).join('\n'));
}

/** Removes a route. */
export async function routesRemove(id: string, options: CommandOptions): Promise<void> {
  const number = /^[0-9]{1,9}$/.test(id) ? Number(id) : 0;
  const removed = await onDatabase(options, (db) =>
    db.tx(async (tx) => {
      const found = await deleteRoute(tx, number);
      if (typeof found === 'object')
        await audit(tx, { ...OPERATOR, action: 'route.remove', target: String(number), detail: { ...found } });
      return found;
    }),
  );
  if (removed === 'managed')
    throw new CliError(
      `Route ${id} is the platform's own: it comes back with each start. To lead its host elsewhere, add a route ` +
        'with a higher --priority.',
    );
  if (removed === undefined) throw new CliError(`There is no route ${id}: \`troupe routes list\` shows them.`);
  print(options, { id: number, removed: true }, () => `Removed route ${id}.`);
}
