/**
 * SQL of static routes, whose changes are told to all gateways at their commit, and of what containers have open to the
 * outside.
 */
import { z } from 'zod';
import { statusSchema } from '../../proto/compute/fields.ts';
import { cacheModeSchema, shownCache } from '../../proto/gateway/cache-mode.ts';
import type { NewRoute } from '../../proto/gateway/routes.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Db, Queries } from '../db.ts';
import { columnsOf, oneValue } from '../rows.ts';

const CHANNEL = 'static_routes';

const routeFields = z.object({
  id: z.number(),
  host: z.string(),
  path_prefix: z.string(),
  target: z.string(),
  strip_prefix: z.boolean(),
  priority: z.number(),
  cache: cacheModeSchema,
});
const anyRouteFields = routeFields.extend({ managed: z.boolean() });

/** Without what is the default. */
const shown = <T extends Pick<z.output<typeof routeFields>, 'cache'>>({ cache, ...route }: T) => ({
  ...route,
  ...shownCache(cache),
});
const routeRow = routeFields.transform(shown);
const anyRouteRow = anyRouteFields.transform(shown);

/** A route as stored. */
export type RouteRow = z.output<typeof routeRow>;

/** All routes, in the order of matching, and whether the platform itself wrote them down. */
export function listRoutes(db: Queries): Promise<z.output<typeof anyRouteRow>[]> {
  return db.many(anyRouteRow, `select ${columnsOf(anyRouteFields)} from static_routes order by priority desc, id`);
}

/** The same without those that the platform itself wrote down. */
export async function operatorRoutes(db: Queries): Promise<RouteRow[]> {
  return db.many(
    routeRow,
    `select ${columnsOf(routeFields)} from static_routes where not managed order by priority desc, id`,
  );
}

/** Adds a route; undefined when there is one of this host, prefix and priority. */
export async function insertRoute(db: Queries, route: NewRoute): Promise<number | undefined> {
  const id = await oneValue(
    db,
    z.number(),
    `insert into static_routes (host, path_prefix, target, strip_prefix, priority, cache)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (host, path_prefix, priority) do nothing returning id`,
    [route.host, route.path_prefix, route.target, route.strip_prefix, route.priority, route.cache ?? 'default'],
  );
  if (id !== undefined) await db.notify(CHANNEL);
  return id;
}

/** Removes and returns an operator's route. `managed`: it is the platform's, and stays; undefined: there is none. */
export async function deleteRoute(tx: Queries, id: number): Promise<RouteRow | 'managed' | undefined> {
  const [route] = await tx.many(
    anyRouteRow,
    `select ${columnsOf(anyRouteFields)} from static_routes where id = $1 for update`,
    [id],
  );
  if (route === undefined || route.managed) return route === undefined ? undefined : 'managed';
  await tx.run('delete from static_routes where id = $1', [id]);
  await tx.notify(CHANNEL);
  return route;
}

const GIVEN =
  'jsonb_to_recordset($1::jsonb) as g (host text, path_prefix text, target text, strip_prefix boolean, priority ' +
  'integer)';
const SAME_PLACE = '(g.host, g.path_prefix, g.priority) = (r.host, r.path_prefix, r.priority)';

/**
 * Makes the platform's own routes exactly `routes`, in one transaction. What operators added stays, and wins where both
 * say the same. A route that leads elsewhere now keeps its id.
 */
export async function replaceManagedRoutes(db: Db, routes: readonly NewRoute[]): Promise<void> {
  const rows = [JSON.stringify(routes)];
  await db.tx(async (tx) => {
    await tx.run(
      `delete from static_routes r where managed and not exists (select from ${GIVEN} where ${SAME_PLACE})`,
      rows,
    );
    await tx.run(
      `update static_routes r set target = g.target, strip_prefix = g.strip_prefix from ${GIVEN}
       where managed and ${SAME_PLACE} and (g.target, g.strip_prefix) <> (r.target, r.strip_prefix)`,
      rows,
    );
    // A conflict that is met by the insert alone would use up an id.
    await tx.run(
      `insert into static_routes (host, path_prefix, target, strip_prefix, priority, managed)
       select host, path_prefix, target, strip_prefix, priority, true from ${GIVEN}
       where not exists (select from static_routes r where ${SAME_PLACE})
       order by host, path_prefix, priority
       on conflict (host, path_prefix, priority) do nothing`,
      rows,
    );
    await tx.notify(CHANNEL);
  });
}

/** Says where the services of the node `id` are, and forgets those of nodes that are gone. */
export async function setNodeRoutes(db: Db, id: string, routes: readonly NewRoute[]): Promise<void> {
  await db.tx(async (tx) => {
    await tx.run(
      `delete from node_routes r where node_id = $1
         or not exists (select from living_nodes n where n.id = r.node_id)`,
      [id],
    );
    await tx.run(
      `insert into node_routes (node_id, host, path_prefix, target, strip_prefix, priority)
       select $2, host, path_prefix, target, strip_prefix, priority from ${GIVEN}`,
      [JSON.stringify(routes), id],
    );
    await tx.notify(CHANNEL);
  });
}

const nodeRouteRow = routeFields.omit({ id: true, cache: true }).extend({ address: z.string() });

/** A route to a service of a node that lives. `address`: the node's, `<machine>:<process id>`. */
export type NodeRouteRow = z.output<typeof nodeRouteRow>;

/** Where the services of the nodes are that live: those of the oldest first, and of those that drain last. */
export function liveNodeRoutes(db: Queries): Promise<NodeRouteRow[]> {
  return db.many(
    nodeRouteRow,
    `select r.host, r.path_prefix, r.target, r.strip_prefix, r.priority, n.address
     from node_routes r join living_nodes n on n.id = r.node_id order by n.draining, n.started_at, n.id`,
  );
}

/** Calls `onChange` after every change, on every node, and whenever one may have been missed. */
export function watchRoutes(db: Db, onChange: () => void): Ending {
  return db.listen(CHANNEL, () => onChange());
}

/** `hash`: of the password; null: the owner alone gets through. */
const guardedRow = z.object({
  rule: z.number(),
  port: z.number(),
  inside: z.number(),
  hash: z.string().nullable(),
});

const openRow = z.object({
  id: z.string(),
  userId: z.string(),
  status: statusSchema,
  /** It is to run: the address of any other may soon be another container's. */
  isWanted: z.boolean(),
  /** It is being deleted, and its row goes next. */
  isGoing: z.boolean(),
  /** The readable name at which it is reached, too. */
  addressName: z.string().nullable(),
  /** Its ingress rules: external port, and the port inside. */
  ports: z.array(z.tuple([z.number(), z.number()])),
  /** The external ports at which the gateway ends TLS. */
  endsTls: z.array(z.number()),
  /** By external port, what the response cache keeps, where that is not what it does by default. */
  caches: z.array(z.object({ port: z.number(), cache: cacheModeSchema })),
  /** Those rules that do not let everybody through. They are in neither of the lists above. */
  guarded: z.array(guardedRow),
});

/** What the database says of a container to gateways. */
export type OpenContainer = z.output<typeof openRow>;

const OPEN = `select c.id, c.user_id as "userId", c.status, c.desired = 'running' as "isWanted",
    c.desired = 'deleted' as "isGoing", c.address_name as "addressName",
    array(select array[p.port, p.target_port] from open_ports p where p.container_id = c.id order by p.port) as ports,
    array(select p.port from open_ports p where p.container_id = c.id and p.tls = 'platform') as "endsTls",
    coalesce((select json_agg(json_build_object('port', p.port, 'cache', p.cache)) from open_ports p
      where p.container_id = c.id and p.cache <> 'default'), '[]') as caches,
    coalesce((select json_agg(json_build_object('rule', g.rule, 'port', g.port, 'inside', g.target_port,
      'hash', g.access_hash)) from guarded_ports g where g.container_id = c.id), '[]') as guarded
  from known_containers c`;

/** The database as it is now, from which `changedContainers` goes on. */
export async function containersSnapshot(db: Queries): Promise<string> {
  return (await oneValue(db, z.string(), 'select pg_current_snapshot()::text')) ?? '';
}

/**
 * The containers whose transactions ended since `snapshot`, in whatever order they began, and those of
 * `ids` that there are. A change of a container's rules is one of the container. Those that are gone are not told of.
 */
export function changedContainers(db: Queries, snapshot: string, ids: readonly string[]): Promise<OpenContainer[]> {
  // A change beyond the snapshot is of another server, whose data this one was made from.
  return db.many(
    openRow,
    `${OPEN} where c.id = any($2::text[])
       or (c.changed >= pg_snapshot_xmin($1::text::pg_snapshot)
         and c.changed < pg_snapshot_xmax(pg_current_snapshot())
         and not pg_visible_in_snapshot(c.changed, $1::text::pg_snapshot))`,
    [snapshot, ids],
  );
}

/** The next containers after `id`, in the order of ids, at most `limit`. */
export function containersAfter(db: Queries, id: string, limit: number): Promise<OpenContainer[]> {
  return db.many(openRow, `${OPEN} where c.id > $1 order by c.id limit $2`, [id, limit]);
}
