/** The cluster, as services see it: where their entities live, and by what right those write. */
import type { ShardLease } from '../../proto/ports/placement.ts';
import type { Cluster } from '../../supervision/placement/index.ts';

/**
 * Entities are placed when they are made, ask for their lease before they read their state, and write by it
 * (storage/fenced.ts). What must happen once in the cluster is done by the node that holds an id of its choice.
 */
export type Placement = Pick<Cluster, 'place' | 'lease' | 'holds' | 'held' | 'onAcquired' | 'setUp'>;

/** What handlers need of an entity to write for it. */
export interface LeaseHolder {
  readonly lease: ShardLease;
}
