/**
 * Which node holds which entities: the words that supervision and storage share (docs/engineering/placement.md). A
 * shard is a part of the entities of one service; a lease makes one node its owner; the epoch of the lease is what its
 * writes are checked by.
 */
import { CodedError } from '../../lib/errors.ts';

/**
 * The version of the format of messages between nodes. It rises with a change that a node of the version before could
 * not read; additions that may be absent do not change it (docs/reference/operations.md, upgrades). 1: in clear; 2:
 * sealed with a key of JWT_SECRET (docs/reference/messaging.md); 3: with another cipher.
 */
export const NODE_FORMAT = 3;

/** One process of the cluster. `id` is new with each start of a process. */
export interface NodeInfo {
  /** Letters, digits, `-` and `_`: part of a bus subject. */
  readonly id: string;
  /** Names of the services whose entities it may hold. */
  readonly roles: readonly string[];
  readonly version: string;
  /** Where people find it, for example host and pid. */
  readonly address: string;
  /** It gives its shards away, and takes none. */
  readonly draining: boolean;
  /** Its part of the shards beside that of others, more than 0: of twice the weight it should hold twice as many. */
  readonly weight: number;
}

/** A node as it describes itself. Its weight is 1 unless said otherwise. */
export type NodeSelf = Omit<NodeInfo, 'draining' | 'weight'> & { readonly weight?: number };

/** A shard of a service: 0 up to the number of shards. */
export interface Shard {
  readonly service: string;
  readonly shard: number;
}

/** A shard held under an epoch. What a write of an entity carries: kept from the moment its state was read. */
export interface ShardLease extends Shard {
  readonly epoch: number;
}

/** Which shards of a service a node holds. */
export interface HeldShards {
  readonly shards: readonly number[];
  /** Into how many the service is cut. */
  readonly count: number;
}

/** What is known of a shard: its owner under that epoch, or nobody. The epoch rises with every change. */
export interface ShardState extends ShardLease {
  readonly owner: string | undefined;
}

/** What a node knows already, so that a beat brings only news. */
export interface Known {
  /** `stamp` of the last view; '' before the first. */
  readonly stamp: string;
  /** `mark` of the last view; '' before the first. */
  readonly mark: string;
}

/** The cluster as a beat sees it. */
export interface BeatResult {
  /** All other nodes whose lease lives; undefined when they are those of the view with the stamp that was given. */
  readonly nodes: readonly NodeInfo[] | undefined;
  readonly stamp: string;
  /** At least those shards that changed since the view with the mark that was given; without one, all. */
  readonly shards: readonly ShardState[];
  readonly mark: string;
  /** An operator asked this node to give its shards away. */
  readonly drainAsked?: boolean;
}

/**
 * Leases, kept by one authority with one clock. Rejections are those of the store (a StorageError); nothing is known
 * then about whether the call had its effect, and the caller must be right either way.
 */
export interface LeaseStore {
  /** Makes the node's lease last `ttlMs` (at most 10 minutes) from now, on the store's clock, and tells what is new. */
  beat(node: NodeInfo, ttlMs: number, known: Known): Promise<BeatResult>;
  /**
   * Makes the node owner of those shards that are free, its own, or of an owner whose lease is over, each with a new
   * epoch, and returns these. None while its own lease is over; not those a writer is in the middle of (ask again).
   * `count`: into how many shards a service is cut; rejects with PlacementError `mismatch` when it was cut otherwise.
   */
  take(nodeId: string, shards: readonly Shard[], count: number): Promise<ShardLease[]>;
  /**
   * Makes shards free that the node holds under these epochs. Returns those not done because of a writer: try again.
   */
  release(nodeId: string, leases: readonly ShardLease[]): Promise<ShardLease[]>;
  /** Ends the node's lease, and with it all it holds. */
  leave(nodeId: string): Promise<void>;
}

/**
 *  fenced        the epoch is over: somebody else may own the shard. Nothing was written; the caller must stop
 *  mismatch      nodes disagree about the number of shards
 *  unknown_format  a message of a version that this node does not read
 */
type PlacementErrorCode = 'fenced' | 'mismatch' | 'unknown_format';

/** What placement rejects with. */
export class PlacementError extends CodedError<PlacementErrorCode> {}

/** Whether `error`, or what caused it, is the refusal of an outdated epoch. */
export function isFenced(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (at instanceof PlacementError && at.code === 'fenced') return true;
    // Thrown on another node.
    if (at.name === 'PlacementError' && 'code' in at && at.code === 'fenced') return true;
  }
  return false;
}
