/** The dependency graph: what the composition root connected, and the containers on top of it. */
import type { Graph } from '../../proto/monitor/endpoints.ts';
import type { ContainerFacts } from '../../storage/monitor/containers.ts';
import type { MonitorDeps } from './deps.ts';

/** Draws it. Edges to what is not among the nodes are left out. Rejects with what a part rejects with. */
export async function graphOf(
  deps: Pick<MonitorDeps, 'graph' | 'clock'>,
  parts: { readonly facts: ReadonlyMap<string, ContainerFacts> },
): Promise<Graph> {
  const { nodes, edges } = await deps.graph();
  const engine = nodes.find(({ kind }) => kind === 'engine');
  const containers = [...parts.facts.values()];
  const all = [...nodes, ...containers.map(({ id, status }) => ({ id: `container:${id}`, kind: 'container', status }))];
  const runs =
    engine === undefined ? [] : containers.map(({ id }) => ({ from: engine.id, to: `container:${id}`, kind: 'runs' }));
  const known = new Set(all.map(({ id }) => id));
  return {
    nodes: all,
    edges: [...edges, ...runs].filter(({ from, to }) => known.has(from) && known.has(to)),
    timestamp: new Date(deps.clock.now()).toISOString(),
  };
}
