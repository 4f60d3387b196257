import type { AnyRef } from '../common/ref.ts';
import type { Backoff, Intensity } from '../common/types.ts';

/**
 * What else is restarted when one child fails.
 *  one-for-one   nothing
 *  one-for-all   all children
 *  rest-for-one  those that were started after it
 */
export type Strategy = 'one-for-one' | 'one-for-all' | 'rest-for-one';

/**
 * `permanent`: restarted whenever it ends; `transient`: only after a failure; `temporary`: never, and then forgotten.
 */
export type Restart = 'permanent' | 'transient' | 'temporary';

/** One child of a supervisor. */
export interface ChildSpec {
  /** Unique in its supervisor. */
  readonly id: string;
  /** Makes the actor, as a child of `parent`. A throw or a rejection is a failed start. */
  readonly start: (parent: AnyRef) => AnyRef | Promise<AnyRef>;
  readonly restart: Restart;
  /** How long it may take to stop before it and all below it are killed. */
  readonly shutdownMs: number;
}

/** A child as `whichChildren` tells of it. */
export interface SupervisedChild {
  readonly id: string;
  readonly restart: Restart;
  /** `restarting`: waits to be started again; `ended`: it is not, because it finished or was terminated. */
  readonly status: 'running' | 'restarting' | 'ended';
  /** While it is running. */
  readonly ref: AnyRef | undefined;
}

/** A supervision tree as data. */
export interface SupervisorSpec {
  readonly name: string;
  readonly strategy: Strategy;
  /**
   * At most `max` restarts of its children, taken together, within `withinMs`; at the next one the supervisor stops.
   */
  readonly intensity: Intensity;
  /** Pause before a restart. Default: none. */
  readonly backoff?: Backoff;
  /** Called with the last failure when it had too many restarts, before it stops. */
  onGivingUp?(cause: unknown): void;
  /** Started in this order, each when the one before is up; stopped in reverse, each when the one before has ended. */
  readonly children: readonly ChildSpec[];
}
