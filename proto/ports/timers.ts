/** Timers of entities that outlive their process: what supervision and storage share of them. */
import type { HeldShards, ShardLease } from './placement.ts';

/** Which timer of which entity. */
export interface TimerName {
  readonly service: string;
  readonly kind: string;
  readonly id: string;
  /** One of its entity's: a later timer of this name takes its place. */
  readonly name: string;
}

/** A timer that is set. */
export interface TimerRow extends TimerName {
  /** Another each time the timer is set: whoever hears of one key twice knows that it is a repeat. */
  readonly key: string;
  /** When it is due, Unix ms. */
  readonly at: number;
  /** What the entity hears then: JSON, a few hundred bytes at most. */
  readonly message: unknown;
}

/** A timer as its entity hears of it: `message` comes from the store, and is to be checked. */
export type FiredTimer = Pick<TimerRow, 'key' | 'name' | 'at' | 'message'>;

/** A timer that is due, or soon is. */
export interface DueTimer extends TimerRow {
  /** When, by the clock of the store: in so many ms from now. */
  readonly inMs: number;
  /** How often it was handed out without success. */
  readonly tries: number;
}

/** The shards of a service. */
export interface TimerShards extends HeldShards {
  readonly service: string;
}

/**
 * Timers, kept by the authority that keeps the leases, with its clock. Rejections are those of the store (a
 * StorageError); nothing is known then about whether the call had its effect.
 */
export interface TimerStore {
  /** Sets a timer of an entity in this shard. Rejects with PlacementError `fenced` once the lease is over. */
  set(lease: ShardLease, timer: TimerRow): Promise<void>;
  /** Ends a timer, if there is one of that name. Rejects like `set`. */
  cancel(lease: ShardLease, timer: TimerName): Promise<void>;
  /** Timers of these shards that are due within `withinMs`, at most `limit`; of those of one shard the first. */
  due(held: readonly TimerShards[], withinMs: number, limit: number): Promise<DueTimer[]>;
  /** These were handled: each ends, unless it was set again since, or its lease is over. */
  end(handled: readonly { readonly timer: TimerRow; readonly lease: ShardLease }[]): Promise<void>;
  /** This one was not handled: it is due in `ms` from now, unless it was set again since. */
  postpone(timer: TimerRow, ms: number): Promise<void>;
}
