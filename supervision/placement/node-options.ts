/** What one node's part in placement is given: its times, its hooks, its store, its bus. */
import type { BusMessage } from '../../proto/ports/bus.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { LeaseStore, NodeSelf, Shard, ShardLease } from '../../proto/ports/placement.ts';

/** Times of a node, ms. */
export interface Timings {
  /** Between two beats. Default 1,500. */
  readonly beatMs: number;
  /** How long a lease lasts after a beat. Default 6,000. */
  readonly ttlMs: number;
  /** The node stops serving so long before its lease ends. Default 1,500. */
  readonly marginMs: number;
  /** A beat without an answer has failed after this. Default 2,000. */
  readonly answerMs: number;
  /** Least time between two beats when there is a reason to look early. Default 100. */
  readonly lookMs: number;
}

/** The times of a node whose heart beats every `beatMs`: its lease lasts four beats. */
export function timingsOf(beatMs: number): Timings {
  return { beatMs, ttlMs: 4 * beatMs, marginMs: beatMs, answerMs: Math.round((4 / 3) * beatMs), lookMs: 100 };
}

export const TIMINGS: Timings = timingsOf(1500);

/** What a node tells of, and asks for. None may throw. */
export interface NodeHooks {
  /** Stops the entities of these shards; resolves when all have ended. */
  stopEntities(shards: readonly Shard[]): Promise<void>;
  onAcquired?(leases: readonly ShardLease[]): void;
  /** These were lost, not handed over: their entities must stop, and their writes fail. `stopEntities` was called. */
  onLost?(leases: readonly ShardLease[], why: string): void;
  /** Shards are free now that these nodes should take. */
  onFreed?(nodeIds: readonly string[]): void;
  /** After each good beat: nodes that live no more. */
  onView?(gone: readonly string[]): void;
}

/** What nodes need of a bus: messages at most once. */
export interface NodeBus {
  publish(subject: string, data: Uint8Array): void;
  /** `subject` ends with `.>`: all that begin so. Closing first hands out what was on its way. */
  subscribe(subject: string, handler: (message: BusMessage) => void, options: { readonly drains: true }): Ending;
  /** Rejects with BusError `timeout` or `no_responders`. */
  request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array>;
}

/** What a node is made of. */
export interface NodeOptions {
  readonly self: NodeSelf;
  readonly store: LeaseStore;
  readonly hooks: NodeHooks;
  readonly log: Log;
  readonly shards?: number;
  readonly timings?: Partial<Timings>;
  /**
   * Whether others reach the node, asked at each beat. While they do not, it gives its shards away, as if it drained.
   */
  isWell?(): boolean;
  /** Monotonic, ms. */
  readonly now?: () => number;
}
