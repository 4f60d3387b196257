/** The dependency graph: the parts of this process, what the database knows of the platform, and the containers. */
import type { Graph } from '../../proto/monitor/endpoints.ts';
import type { ContainerFacts } from '../../storage/monitor/alerts.ts';
import { type SystemRef, type TreeNode, tree } from '../../supervision/index.ts';
import type { MonitorDeps } from './deps.ts';
import type { Readings } from './readings.ts';

type GraphPart = Pick<Graph, 'nodes' | 'edges'>;
type GraphDeps = Pick<MonitorDeps, 'graph' | 'clock' | 'db' | 'numbers'>;

/** What it is drawn from besides. */
interface GraphInput {
  readonly system: SystemRef;
  readonly facts: ReadonlyMap<string, ContainerFacts>;
  readonly readings: Readings;
}

/** Services that use the engine. */
const WITH_ENGINE = ['compute', 'monitor', 'gateway'];

/** Refreshes after which an engine whose containers were not measured counts as down. */
const PATIENCE = 3;

/** Draws it. Edges to what is not among the nodes are left out. Rejects with what a part rejects with. */
export async function graphOf(deps: GraphDeps, parts: GraphInput): Promise<Graph> {
  const [services, stored] = await Promise.all([servicesOf(deps, parts.readings), storedOf(deps)]);
  const actors = actorsOf(tree(parts.system, { maxChildren: 50 }), new Set(services.nodes.map(({ id }) => id)));
  const containers = containersOf(deps, parts.facts);
  const all = [services, stored, actors, containers];
  const nodes = all.flatMap((part) => part.nodes);
  const known = new Set(nodes.map(({ id }) => id));
  return {
    nodes,
    edges: all.flatMap(({ edges }) => edges).filter(({ from, to }) => known.has(from) && known.has(to)),
    timestamp: new Date(deps.clock.now()).toISOString(),
  };
}

function containersOf({ graph }: GraphDeps, facts: ReadonlyMap<string, ContainerFacts>): GraphPart {
  const containers = [...facts.values()];
  return {
    nodes: containers.map(({ id, status }) => ({ id: `container:${id}`, kind: 'container', status })),
    edges: containers.map(({ id }) => ({ from: `engine:${graph.engine.kind}`, to: `container:${id}`, kind: 'runs' })),
  };
}

async function servicesOf({ graph, db, clock, numbers }: GraphDeps, readings: Readings): Promise<GraphPart> {
  const { bus, engine, hasGateway } = graph;
  const names = await Promise.all(
    graph.services().map(async ({ service }) => ({
      name: service.name as string,
      status: (await service.health()).ok ? 'ok' : 'degraded',
    })),
  );
  if (hasGateway) names.push({ name: 'gateway', status: 'ok' });
  const isUp = await db.ping().then(
    () => true,
    () => false,
  );
  const pods = readings.pods();
  const isMeasured = pods !== undefined && clock.now() - pods.at < PATIENCE * pods.refreshMs;
  const edges: Graph['edges'] = names.flatMap(({ name }) => [
    { from: `service:${name}`, to: 'storage:postgresql', kind: 'sql' },
    {
      from: `service:${name}`,
      to: `bus:${bus.kind}`,
      kind: 'messages',
      ...(name === 'monitor' ? { traffic: { unit: 'messages', total: numbers.published } } : {}),
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
      { id: `engine:${engine.kind}`, kind: 'engine', status: isMeasured ? 'ok' : 'down' },
    ],
    edges,
  };
}

/** Platform nodes, routes and mappings, as the database has them. */
async function storedOf({ graph }: GraphDeps): Promise<GraphPart> {
  const [platform, routes, mappings] = await Promise.all([graph.nodes(), graph.routes(), graph.mappings()]);
  const services = graph.services();
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
        const total = name === undefined ? undefined : graph.requests?.(name);
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
function actorsOf(root: TreeNode, services: ReadonlySet<string>): GraphPart {
  const nodes: Graph['nodes'] = [];
  const edges: Graph['edges'] = [];
  for (const top of root.children) {
    const id = `actor:${top.name}`;
    nodes.push({ id, kind: 'actor', status: top.status });
    const service = `service:${top.name}`;
    if (services.has(service)) edges.push({ from: service, to: id, kind: 'supervises' });
    // Parts are below a supervisor of their own.
    for (const part of top.children.flatMap((child) => (child.kind === 'supervisor' ? child.children : [child]))) {
      const partId = `${id}/${part.name}`;
      nodes.push({ id: partId, kind: 'actor', status: part.status });
      edges.push({ from: id, to: partId, kind: 'supervises' });
    }
  }
  return { nodes, edges };
}
