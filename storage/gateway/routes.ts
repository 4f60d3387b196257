/** SQL of static routes. Changes are told to all gateways at their commit. */
import { z } from 'zod';
import type { Ending } from '../../proto/ports.ts';
import type { NewRoute } from '../../proto/routes.ts';
import { type Db, isConstraint, type Queries } from '../db.ts';

const idRow = z.object({ id: z.number() });

const CHANNEL = 'static_routes';

const routeRow = z.object({
  id: z.number(),
  host: z.string(),
  path_prefix: z.string(),
  target: z.string(),
  strip_prefix: z.boolean(),
  priority: z.number(),
});

/** A route as stored. */
export type RouteRow = z.output<typeof routeRow>;

const anyRouteRow = routeRow.extend({ managed: z.boolean() });

/** All routes, in the order of matching, and whether the platform itself wrote them down. */
export function listRoutes(db: Queries): Promise<z.output<typeof anyRouteRow>[]> {
  return db.many(
    anyRouteRow,
    'select id, host, path_prefix, target, strip_prefix, priority, managed from static_routes order by priority desc, id',
  );
}

/** The same without those that the platform itself wrote down. */
export async function operatorRoutes(db: Queries): Promise<RouteRow[]> {
  return db.many(
    routeRow,
    `select id, host, path_prefix, target, strip_prefix, priority from static_routes where not managed
     order by priority desc, id`,
  );
}

/** Adds a route; undefined when there is one of this host, prefix and priority. */
export async function insertRoute(db: Queries, route: NewRoute): Promise<number | undefined> {
  try {
    const row = await db.one(
      idRow,
      `insert into static_routes (host, path_prefix, target, strip_prefix, priority) values ($1, $2, $3, $4, $5) returning id`,
      [route.host, route.path_prefix, route.target, route.strip_prefix, route.priority],
    );
    await db.notify(CHANNEL);
    return row?.id;
  } catch (error) {
    if (isConstraint(error, 'static_routes_host_path_prefix_priority_key')) return undefined;
    throw error;
  }
}

/** Removes a route; false when there is none of this id. */
export async function deleteRoute(db: Queries, id: number): Promise<boolean> {
  const removed = await db.run('delete from static_routes where id = $1', [id]);
  await db.notify(CHANNEL);
  return removed === 1;
}

/** Makes the platform's own routes exactly `routes`, in one transaction. What operators added stays, and wins where both say the same. */
export async function replaceManagedRoutes(db: Db, routes: readonly NewRoute[]): Promise<void> {
  const rows = JSON.stringify(routes);
  const given = `jsonb_to_recordset($1::jsonb) as g (host text, path_prefix text, target text, strip_prefix boolean, priority integer)`;
  await db.tx(async (tx) => {
    await tx.run(
      `delete from static_routes r where managed and not exists (select from ${given}
         where (g.host, g.path_prefix, g.target, g.strip_prefix, g.priority) = (r.host, r.path_prefix, r.target, r.strip_prefix, r.priority))`,
      [rows],
    );
    await tx.run(
      `insert into static_routes (host, path_prefix, target, strip_prefix, priority, managed)
       select host, path_prefix, target, strip_prefix, priority, true from ${given}
       on conflict (host, path_prefix, priority) do nothing`,
      [rows],
    );
    await tx.notify(CHANNEL);
  });
}

/** Calls `onChange` after every change, on every node, and whenever one may have been missed. */
export function watchRoutes(db: Db, onChange: () => void): Ending {
  return db.listen(CHANNEL, () => onChange());
}
