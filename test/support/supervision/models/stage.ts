import assert from 'node:assert/strict';
import { type SystemOptions, type SystemRef, start } from '../../../../supervision/index.ts';
import { TestSystem } from '../../../../supervision/testing/index.ts';
import { pause } from '../../pause.ts';
import { turns } from '../../until.ts';
import { gate } from '../system.ts';
import { settle } from './settle.ts';

/** Where a program of a model runs. */
export interface Stage {
  start(options?: SystemOptions): SystemRef;
  /** Compares once nothing happens any more; fails with the difference. */
  agree(observed: () => unknown, expected: unknown): Promise<void>;
  /** Lets something happen: a turn of the loop, or a millisecond. */
  pass(): Promise<void>;
  /** Comes back later in no time, for a handler. */
  turn(): Promise<void>;
  /** Waits `ms`, for a handler. */
  pause(ms: number): Promise<void>;
  /** What `promise` comes to, with as much time as that takes. */
  over<T>(promise: Promise<T>): Promise<T>;
}

// Uncaught: it ends the run, whichever program it was.
function onIllegalFlags(problem: string): void {
  process.nextTick(() => {
    throw new Error(problem);
  });
}

/** The run queue and the time of this process. */
export const realStage: Stage = {
  start: (options = {}) => start({ ...options, onIllegalFlags }),
  agree: settle,
  pass: () => turns(1),
  turn: () => turns(1),
  pause: (ms) => pause(ms, 'slow peer'),
  over: (promise) => promise,
};

/** A system of its own, in which the seed decides who runs next. It waits for nothing: who is stuck now stays stuck. */
export class SeededStage implements Stage {
  readonly #seed: number;
  #time: TestSystem | undefined;

  constructor(seed: number) {
    this.#seed = seed;
  }

  start(options: SystemOptions = {}): SystemRef {
    this.#time = new TestSystem({ ...options, onIllegalFlags, seed: this.#seed });
    return this.#time.ref;
  }

  async agree(observed: () => unknown, expected: unknown): Promise<void> {
    await this.#now.settle();
    assert.deepEqual(observed(), expected);
  }

  pass(): Promise<void> {
    return this.#now.advance(1);
  }

  turn(): Promise<void> {
    return this.pause(0);
  }

  pause(ms: number): Promise<void> {
    const { opened, open } = gate();
    this.#now.clock.setTimeout(open, ms);
    return opened;
  }

  over<T>(promise: Promise<T>): Promise<T> {
    return this.#now.until(promise);
  }

  get #now(): TestSystem {
    assert.ok(this.#time !== undefined);
    return this.#time;
  }
}
