import { setImmediate as turn } from 'node:timers/promises';
import { cellOf } from '../cell/context.ts';
import type { ClockTimer, SystemClock } from '../environment.ts';
import { ActorError, atLeast } from '../errors.ts';
import { type AnyRef, Ref, type SystemRef } from '../ref.ts';
import { type TreeNode, tree } from '../stats.ts';
import { start } from '../system.ts';
import type { SystemOptions } from '../types.ts';
import { stop, stopped } from '../verbs.ts';

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

/** A timer that is set. */
class VirtualTimer implements ClockTimer {
  readonly due: number;
  readonly f: () => void;
  readonly #timers: Set<VirtualTimer>;

  constructor(timers: Set<VirtualTimer>, due: number, f: () => void) {
    this.#timers = timers;
    this.due = due;
    this.f = f;
    timers.add(this);
  }

  close(): void {
    this.#timers.delete(this);
  }

  ref(): void {}

  unref(): void {}
}

/** A clock that stands still until it is told to go on. */
class VirtualClock implements SystemClock {
  readonly #timers = new Set<VirtualTimer>();
  #now = 0;

  now(): number {
    return this.#now;
  }

  setTimeout(f: () => void, ms: number): ClockTimer {
    return new VirtualTimer(this.#timers, this.#now + Math.max(0, ms), f);
  }

  /** When the next timer is due; undefined when none is set. */
  get next(): number | undefined {
    return this.#first?.due;
  }

  /** Goes to the time of the next timer and fires it: of several, the one that was set first. */
  fire(): void {
    const timer = this.#first;
    if (timer === undefined) return;
    this.#now = Math.max(this.#now, timer.due);
    timer.close();
    timer.f();
  }

  /** Goes on to `time`. No timer may be due before. */
  goTo(time: number): void {
    this.#now = Math.max(this.#now, time);
  }

  get #first(): VirtualTimer | undefined {
    let first: VirtualTimer | undefined;
    // A set keeps the order in which its members came.
    for (const timer of this.#timers) if (first === undefined || timer.due < first.due) first = timer;
    return first;
  }
}

/**
 * Resolves once no actor of the system has anything to do: no message waits, no handler runs, nobody starts or stops.
 * Timers may still be set. So a test can tell that a message did not come. Rejects with ActorError `timeout`.
 */
export async function settled(system: SystemRef, withinMs: number = 1000): Promise<void> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    await turn();
    const busy = firstBusy(tree(system, { maxChildren: Number.POSITIVE_INFINITY }));
    if (busy === undefined) return;
    if (performance.now() > deadline) throw new ActorError('timeout', `${busy.path} is ${busy.status}`);
  }
}

/** An actor that is not idle, the deepest first. */
function firstBusy(node: TreeNode): TreeNode | undefined {
  for (const child of node.children) {
    const busy = firstBusy(child);
    if (busy !== undefined) return busy;
  }
  return node.status === 'idle' ? undefined : node;
}

/** Characters of a message in a trace. */
const MAX_TEXT = 200;
/** Levels of a message in a trace. */
const MAX_DEPTH = 6;

/** A message as one short line of text, which is the same in every run. Never throws. */
function describeMessage(message: unknown): string {
  let text: string;
  try {
    text = describe(message, MAX_DEPTH);
  } catch {
    text = '(unreadable)';
  }
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text;
}

function describe(value: unknown, levels: number): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'function') return '(function)';
  if (typeof value !== 'object' || value === null) return String(value);
  if (value instanceof Ref) return value.path;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (levels === 0) return '...';
  if (Array.isArray(value)) return `[${value.map((each) => describe(each, levels - 1)).join(', ')}]`;
  const { constructor: made } = value;
  if (made !== Object && made !== undefined) return `(${made.name})`;
  const members = Object.entries(value).map(([name, each]) => `${name}: ${describe(each, levels - 1)}`);
  return `{ ${members.join(', ')} }`;
}

/** Numbers from 0 to below 1 that look random (mulberry32). The same seed gives the same ones. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
