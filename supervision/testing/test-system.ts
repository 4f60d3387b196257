import { setImmediate as turn } from 'node:timers/promises';
import { cellOf } from '../cell/context.ts';
import type { SystemClock } from '../common/environment.ts';
import { ActorError, atLeast } from '../common/errors.ts';
import type { AnyRef, SystemRef } from '../common/ref.ts';
import type { SystemOptions } from '../common/types.ts';
import { start } from '../system/system.ts';
import { stop, stopped } from '../system/verbs.ts';
import { seededRandom } from './random.ts';
import { describeMessage } from './trace.ts';
import { VirtualClock } from './virtual-clock.ts';

/** Options of `testSystem`: those of `start`, but for what the seed decides. */
export interface TestSystemOptions extends Omit<SystemOptions, 'clock' | 'random' | 'schedule'> {
  /** Decides in which order actors run, and what is random in backoffs. Default 1. */
  readonly seed?: number;
}

/** Steps without time passing after which actors are said to keep each other busy for ever. */
const MAX_STEPS = 100_000;
/** Turns of the loop without a step after which nothing more is expected: a handler may await one or two. */
const QUIET_TURNS = 2;

/**
 * A system of actors for tests. Its time stands still until it is moved on. Which of several actors runs next, and what
 * is random in backoffs, come from the seed: the same test with the same seed has the same trace.
 */
export class TestSystem {
  /** The root: to spawn under. */
  readonly ref: SystemRef;
  readonly seed: number;
  /** A line for each message that an actor handled and each timer that fired, with its time. */
  readonly trace: readonly string[];
  readonly #clock = new VirtualClock();
  readonly #steps: string[] = [];

  constructor({ seed = 1, ...options }: TestSystemOptions = {}) {
    this.seed = seed;
    this.trace = this.#steps;
    const random = seededRandom(seed);
    const schedule = {
      next: (waiting: readonly AnyRef[]): number => {
        const at = Math.floor(random() * waiting.length);
        const chosen = waiting[at];
        if (chosen !== undefined) this.#note(chosen);
        return at;
      },
    };
    this.ref = start({
      name: 'test',
      freezeMessages: true,
      onIllegalFlags: fail,
      ...options,
      clock: this.#clock,
      random,
      schedule,
    });
  }

  /** The time of the system, for other parts of the test. */
  get clock(): SystemClock {
    return this.#clock;
  }

  /** Milliseconds since the start of the system. */
  get now(): number {
    return this.#clock.now();
  }

  /**
   * Resolves once nothing happens any more unless time passes, or the test or the outside does something. Rejects with
   * ActorError `timeout` when that takes 100,000 messages.
   */
  settle(): Promise<void> {
    return this.advance(0);
  }

  /** Lets `ms` pass: each timer fires at its time, and what follows from it happens before the next one. */
  async advance(ms: number): Promise<void> {
    const until = this.now + atLeast(0, ms, 'ms');
    const most = this.#steps.length + MAX_STEPS;
    for (;;) {
      await this.#quiet(most);
      const { next } = this.#clock;
      if (next === undefined || next > until) break;
      this.#fire();
    }
    this.#clock.goTo(until);
  }

  /** Lets time pass until the next timer is due, and what follows from it happens. Whether there was one. */
  async advanceToNext(): Promise<boolean> {
    await this.settle();
    const { next } = this.#clock;
    if (next === undefined) return false;
    await this.advance(next - this.now);
    return true;
  }

  /**
   * Lets time pass, timer by timer, until `promise` is settled, and returns what it comes to. Rejects with ActorError
   * `timeout` when no timer is left that could bring it about, or after 100,000 messages and timers.
   */
  async until<T>(promise: Promise<T>): Promise<T> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    promise.then(over, over);
    const most = this.#steps.length + MAX_STEPS;
    for (;;) {
      await this.settle();
      if (isOver) return promise;
      if (this.#steps.length > most || !(await this.advanceToNext())) {
        throw new ActorError('timeout', `nothing is left to happen at ${this.now} ms, and it has not come about`);
      }
    }
  }

  /** Stops all actors, with as much time as that takes. */
  async end(): Promise<void> {
    stop(this.ref);
    await this.until(stopped(this.ref));
  }

  async #quiet(most: number): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; ) {
      const before = this.#steps.length;
      await turn();
      quiet = this.#steps.length === before ? quiet + 1 : 0;
      if (this.#steps.length > most) throw new ActorError('timeout', 'the actors keep each other busy for ever');
    }
  }

  #note(actor: AnyRef): void {
    this.#steps.push(`${this.now} ${actor.path} ${describeMessage(cellOf(actor).nextMessage)}`);
  }

  #fire(): void {
    this.#steps.push(`${this.#clock.next} timer`);
    this.#clock.fire();
  }
}

function fail(problem: string): void {
  process.nextTick(() => {
    throw new Error(problem);
  });
}
