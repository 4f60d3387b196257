/** The processes of the cluster as operators see them. */
import { type NodeRow, nodeState, type ServiceShards } from '../../storage/placement/nodes.ts';

/** What the database says of the cluster. */
export interface FoundNodes {
  readonly nodes: readonly NodeRow[];
  readonly services: readonly ServiceShards[];
}

/** For the administrator and `troupe nodes --json`: times as ISO 8601, the rest of the lease in ms (0: it is over). */
export function nodesView({ nodes, services }: FoundNodes) {
  return {
    nodes: nodes.map((node) => ({
      id: node.id,
      address: node.address,
      roles: node.roles,
      version: node.version,
      state: nodeState(node),
      started_at: node.startedAt.toISOString(),
      lease_ms: Math.max(0, Math.round(node.leaseMs)),
      shards: node.shards,
    })),
    services: services.map(({ service, count, held }) => ({ service, shards: count, held })),
  };
}
