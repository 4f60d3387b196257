/** Answers the administrator about nodes and routes, which are no service's alone. */
import { auditEntry } from '../../actors/service/audit.ts';
import { handler, handlers } from '../../actors/service/dispatch.ts';
import { keptReply } from '../../actors/service/kept.ts';
import {
  adminAddRoute,
  adminDeleteRoute,
  adminDrainNode,
  adminListRoutes,
  adminNodes,
  adminUndrainNode,
  platformEndpoints,
} from '../../proto/auth/admin.ts';
import type { Call } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { audit } from '../../storage/audit.ts';
import type { Db } from '../../storage/db.ts';
import { deleteRoute, insertRoute, listRoutes } from '../../storage/gateway/routes.ts';
import {
  askDrain,
  listNodes,
  listServiceShards,
  type NodeRow,
  nodeState,
  rolesOnlyOf,
} from '../../storage/placement/nodes.ts';
import { nodesView } from './nodes-view.ts';
import { type Operations, operationsOf } from './operations.ts';

/** Its endpoints and their handlers. */
export function platformOperations(db: Db): Operations {
  const nodeOf = async (id: string): Promise<{ node: NodeRow; nodes: readonly NodeRow[] }> => {
    const nodes = await listNodes(db);
    const node = nodes.find((one) => one.id === id);
    if (node === undefined) throw new Refusal('not_found', { message: `There is no node ${id}.` });
    if (nodeState(node) === 'gone') throw new Refusal('conflict', { message: `${id} is gone: it holds nothing.` });
    return { node, nodes };
  };
  const setDrain = async (call: Call, { id, address }: NodeRow, asked: boolean) => {
    await db.tx(async (tx) => {
      await askDrain(tx, id, asked);
      await audit(tx, auditEntry(call, asked ? 'node.drain' : 'node.undrain', id, { address }));
    });
    const now = (await listNodes(db)).find((one) => one.id === id);
    return { id, address, state: now === undefined ? ('gone' as const) : nodeState(now) };
  };

  const table = handlers<undefined>(
    handler(adminNodes, async (_: undefined) =>
      nodesView({ nodes: await listNodes(db), services: await listServiceShards(db) }),
    ),
    handler(adminDrainNode, async (_: undefined, call) => {
      const { node, nodes } = await nodeOf(call.params.id);
      const missing = rolesOnlyOf(node, nodes);
      if (missing.length > 0 && !call.query.force)
        throw new Refusal('conflict', {
          message:
            `Nobody else serves ${missing.join(', ')}: start another node first. With force it is drained all the ` +
            'same, and what it held serves nobody.',
        });
      return setDrain(call, node, true);
    }),
    handler(adminUndrainNode, async (_: undefined, call) => setDrain(call, (await nodeOf(call.params.id)).node, false)),
    handler(adminListRoutes, (_: undefined) => listRoutes(db)),
    handler(adminAddRoute, async (_: undefined, call) => {
      const route = call.body;
      return db.tx(async (tx) => {
        const id = await insertRoute(tx, route);
        if (id === undefined)
          throw new Refusal('conflict', {
            message: `There is a route for ${route.host} ${route.path_prefix} with priority ${route.priority} already.`,
          });
        await audit(tx, auditEntry(call, 'route.add', String(id), route));
        return keptReply(tx, call, { id, ...route, managed: false });
      });
    }),
    handler(adminDeleteRoute, async (_: undefined, call) => {
      const { id } = call.params;
      await db.tx(async (tx) => {
        const route = await deleteRoute(tx, id);
        if (route === undefined) throw new Refusal('not_found', { message: `There is no route ${id}.` });
        if (route === 'managed')
          throw new Refusal('conflict', { message: `Route ${id} is the platform's own, and stays.` });
        const { id: _, ...detail } = route;
        await audit(tx, auditEntry(call, 'route.remove', String(id), detail));
      });
      return undefined;
    }),
  );
  return operationsOf(platformEndpoints, table);
}
