import { performance } from 'node:perf_hooks';
import type { AnyRef } from './ref.ts';

/** A timer of a SystemClock. */
export interface ClockTimer {
  /** Ends it. After it fired, this does nothing. */
  close(): unknown;
  /** Keeps the process alive (the default), where the clock can. */
  ref(): unknown;
  /** Keeps the process alive no longer. */
  unref(): unknown;
}

/** The time of a system. */
export interface SystemClock {
  /** Milliseconds since some moment, with fractions; never goes back. */
  now(): number;
  /** Calls `f` once, in `ms`: at most 2,147,483,647. */
  setTimeout(f: () => void, ms: number): ClockTimer;
}

/** Decides in which order the actors of a system run. */
export interface Schedule {
  /**
   * Chooses an actor out of `waiting`, by its index: it handles its next message. `waiting` is not empty; the actor
   * that waits longest comes first. Must not keep the array.
   */
  next(waiting: readonly AnyRef[]): number;
}

/** The time of this process. */
export const nodeClock: SystemClock = {
  now: () => performance.now(),
  setTimeout: (f, ms) => setTimeout(f, ms),
};
