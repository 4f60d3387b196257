/** What is connected in this process and its database, as the dependency graph of docs/reference/monitor.md. */
import type { Graph } from '../../proto/monitor/endpoints.ts';
import type { Service } from '../../proto/service.ts';
import type { Db } from '../../storage/db.ts';
import { listRoutes } from '../../storage/gateway/routes.ts';
import { listNodes } from '../../storage/placement/nodes.ts';
import { type SystemRef, type TreeNode, tree } from '../../supervision/index.ts';

type Part = Pick<Graph, 'nodes' | 'edges'>;

/** What the graph is drawn from. */
export interface GraphParts {
  readonly db: Db;
  readonly system: SystemRef;
  /** Services of this process; the monitor among them once it is there. */
  readonly services: () => readonly { readonly service: Pick<Service, 'name' | 'health'>; readonly target?: string }[];
  readonly hasGateway: boolean;
  readonly bus: { readonly kind: 'nats' | 'embedded'; readonly problem: () => string | undefined };
  readonly engine: { readonly kind: string; readonly isWell: () => boolean; readonly calls: () => number };
  /** Requests answered by a service, and messages published by the monitor, since the start. */
  readonly requests?: (service: string) => number;
  readonly published: () => number;
  /** Domain mappings of all users. */
  readonly mappings: () => Promise<readonly { id: string; status: string; containerId: string }[]>;
}

/** Services that use the engine. */
const WITH_ENGINE = ['compute', 'monitor', 'gateway'];

/** Makes the function that draws it. */
export function graphOfProcess(parts: GraphParts): () => Promise<Part> {
  return async () => {
    const [services, rest] = await Promise.all([servicesOf(parts), storedOf(parts)]);
    const actors = actorsOf(tree(parts.system, { maxChildren: 50 }), new Set(services.nodes.map(({ id }) => id)));
    const all = [services, rest, actors];
    return { nodes: all.flatMap(({ nodes }) => nodes), edges: all.flatMap(({ edges }) => edges) };
  };
}

async function servicesOf(parts: GraphParts): Promise<Part> {
  const { bus, engine, hasGateway } = parts;
  const names = await Promise.all(
    parts.services().map(async ({ service }) => ({
      name: service.name as string,
      status: (await service.health()).ok ? 'ok' : 'degraded',
    })),
  );
  if (hasGateway) names.push({ name: 'gateway', status: 'ok' });
  const isUp = await parts.db.ping().then(
    () => true,
    () => false,
  );
  const edges: Graph['edges'] = names.flatMap(({ name }) => [
    { from: `service:${name}`, to: 'storage:postgresql', kind: 'sql' },
    {
      from: `service:${name}`,
      to: `bus:${bus.kind}`,
      kind: 'messages',
      ...(name === 'monitor' ? { traffic: { unit: 'messages', total: parts.published() } } : {}),
    },
    ...(WITH_ENGINE.includes(name)
      ? [
          {
            from: `service:${name}`,
            to: `engine:${engine.kind}`,
            kind: 'api',
            ...(name === 'monitor' ? { traffic: { unit: 'calls', total: engine.calls() } } : {}),
          },
        ]
      : []),
  ]);
  return {
    nodes: [
      ...names.map(({ name, status }) => ({ id: `service:${name}`, kind: 'service', status })),
      { id: 'storage:postgresql', kind: 'storage', status: isUp ? 'ok' : 'down' },
      { id: `bus:${bus.kind}`, kind: 'bus', status: bus.problem() === undefined ? 'ok' : 'down' },
      { id: `engine:${engine.kind}`, kind: 'engine', status: engine.isWell() ? 'ok' : 'down' },
    ],
    edges,
  };
}

/** Platform nodes, routes and mappings, as the database has them. */
async function storedOf(parts: GraphParts): Promise<Part> {
  const [platform, routes, mappings] = await Promise.all([listNodes(parts.db), listRoutes(parts.db), parts.mappings()]);
  const services = parts.services();
  return {
    nodes: [
      ...platform.map(({ id, leaseMs, draining }) => ({
        id: `node:${id}`,
        kind: 'node',
        status: leaseMs <= 0 ? 'gone' : draining ? 'draining' : 'serving',
      })),
      ...routes.map(({ id }) => ({ id: `route:${id}`, kind: 'route', status: 'ok' })),
      ...mappings.map(({ id, status }) => ({ id: `mapping:${id}`, kind: 'mapping', status })),
    ],
    edges: [
      ...platform.flatMap(({ id, roles }) =>
        // Publishing the outbox is work, and no service.
        roles
          .filter((role) => role !== 'outbox')
          .map((role) => ({ from: `node:${id}`, to: `service:${role}`, kind: 'runs' })),
      ),
      ...routes.flatMap(({ id, target }) => {
        const name = services.find((one) => one.target === target)?.service.name;
        const total = name === undefined ? undefined : parts.requests?.(name);
        return [
          { from: 'service:gateway', to: `route:${id}`, kind: 'matches' },
          ...(name === undefined
            ? []
            : [
                {
                  from: `route:${id}`,
                  to: `service:${name}`,
                  kind: 'http',
                  ...(total === undefined ? {} : { traffic: { unit: 'requests', total } }),
                },
              ]),
        ];
      }),
      ...mappings.flatMap(({ id, containerId }) => [
        { from: 'service:gateway', to: `mapping:${id}`, kind: 'matches' },
        { from: `mapping:${id}`, to: `container:${containerId}`, kind: 'http' },
      ]),
    ],
  };
}

/** The supervision trees down to the parts of each service: what is below them comes and goes with users. */
function actorsOf(root: TreeNode, services: ReadonlySet<string>): Part {
  const nodes: Graph['nodes'] = [];
  const edges: Graph['edges'] = [];
  for (const top of root.children) {
    const id = `actor:${top.name}`;
    nodes.push({ id, kind: 'actor', status: top.status });
    const service = `service:${top.name}`;
    if (services.has(service)) edges.push({ from: service, to: id, kind: 'supervises' });
    for (const part of top.children) {
      const partId = `${id}/${part.name}`;
      nodes.push({ id: partId, kind: 'actor', status: part.status });
      edges.push({ from: id, to: partId, kind: 'supervises' });
    }
  }
  return { nodes, edges };
}
