/** `troupe nodes`: the processes of the cluster and their shards, from the database: whatever the nodes do. */
import { listNodes, listServiceShards, type NodeRow, type ServiceShards } from '../../storage/placement/nodes.ts';
import { type CommandOptions, onDatabase, print } from './command.ts';
import { tableLines } from './table.ts';

/** Prints all nodes, those whose lease ended in the last minutes included. */
export async function showNodes(options: CommandOptions): Promise<void> {
  const found = await onDatabase(options, async (db) => ({
    nodes: await listNodes(db),
    services: await listServiceShards(db),
  }));
  print(options, nodesJson(found), () => drawNodes(found));
}

interface FoundNode {
  readonly nodes: readonly NodeRow[];
  readonly services: readonly ServiceShards[];
}

/** The nodes as JSON: times as ISO 8601, the rest of the lease in ms (0 when it is over). */
export function nodesJson({ nodes, services }: FoundNode) {
  return {
    nodes: nodes.map((node) => ({
      id: node.id,
      address: node.address,
      roles: node.roles,
      version: node.version,
      state: stateOf(node),
      started_at: node.startedAt.toISOString(),
      lease_ms: Math.max(0, Math.round(node.leaseMs)),
      shards: node.shards,
    })),
    services: services.map(({ service, count, held }) => ({ service, shards: count, held })),
  };
}

/** One line a node, and one for each service of which shards are held by nobody. */
export function drawNodes({ nodes, services }: FoundNode): string {
  if (nodes.length === 0) return 'No node is running, and none ran in the last minutes.';
  const rows = nodes.map((node) => [
    node.id,
    node.address,
    node.version,
    stateOf(node),
    node.leaseMs > 0 ? `${(node.leaseMs / 1000).toFixed(1)} s` : '-',
    node.roles.map((role) => `${role} ${node.shards[role] ?? 0}`).join(', ') || '-',
  ]);
  const lines = tableLines(['NODE', 'ADDRESS', 'VERSION', 'STATUS', 'LEASE', 'SHARDS'], rows);
  const missing = services
    .filter(({ count, held }) => held < count)
    .map(({ service, count, held }) => `${service}: ${count - held} of ${count} shards are held by no living node.`);
  return [...lines, ...missing].join('\n');
}

/** `drained`: it gave everything away, and can be stopped. */
function stateOf({ leaseMs, draining, shards }: NodeRow): 'serving' | 'draining' | 'drained' | 'gone' {
  if (leaseMs <= 0) return 'gone';
  if (!draining) return 'serving';
  return Object.keys(shards).length === 0 ? 'drained' : 'draining';
}
