import { nodeClock, type Schedule, type SystemClock } from '../environment.ts';
import type { Ref } from '../ref.ts';
import { AskDeadlines } from './ask-deadlines.ts';

/** Something with work: run handles at most `limit` messages and says how many it did. */
export interface Runnable extends Ref<never> {
  nextRun: Runnable | undefined;
  run(limit: number): number;
}

const SLICE_MS = 2;
/** Messages between two looks at the clock; fewer when handlers are slow. */
const MAX_STRIDE = 32;

/** Longer ages begin at 0 again: the range of the stamps, less some minutes by which one may seem to be ahead. */
export const MAX_AGE_MS = 0x7fff_ffff - 0xf_ffff;

const resolved = Promise.resolve();

/**
 * Which actors have something to do, and when they get to do it; and the time that they see.
 *
 * The first message of a turn is drained in a microtask, so what an I/O callback asks is answered before the next
 * callback. A system gets SLICE_MS of a turn; what is left then waits for setImmediate, behind timers and sockets. A
 * marker (setImmediate) tells when a turn ended, so chains of awaited asks cannot hold the loop either.
 */
export class RunQueue {
  /** Coarse time, refreshed with each look at the clock, in 31 bits that wrap. */
  ms = 0;
  /** The same, as the clock gives it. */
  exact = 0;
  /** Whether handlers run right now. */
  draining = false;
  readonly clock: SystemClock;
  /** The deadlines of open asks. */
  readonly deadlines: AskDeadlines;
  private head: Runnable | undefined;
  /** The last in the queue, while there are two or more. */
  private tail: Runnable | undefined;
  private scheduled = false;
  private turnOpen = false;
  private turnStart = 0;
  private stride = 8;
  private readonly onDrain = (): void => this.drain();
  private readonly onTurn = (): void => this.turn();

  constructor(clock: SystemClock) {
    this.clock = clock;
    this.deadlines = new AskDeadlines(this);
  }

  /** Reads the clock. */
  touch(): void {
    const now = this.clock.now();
    this.exact = now;
    this.ms = now & 0x7fff_ffff;
  }

  /** The clock's time; `wake` has been called just before. Only a drain that is still to come leaves it old. */
  now(): number {
    return this.draining || !this.scheduled ? this.exact : this.clock.now();
  }

  /** Refreshes the time unless a drain is coming or going on, which does so itself. */
  wake(): void {
    if (!this.scheduled) this.touch();
  }

  /** Milliseconds from a coarse stamp to now, up to MAX_AGE_MS: 24.8 days. */
  ageOf(stamp: number): number {
    const age = (this.ms - stamp) & 0x7fff_ffff;
    return age > MAX_AGE_MS ? 0 : age;
  }

  /** Puts `item` last. The caller makes sure that it is not queued yet, and has called `wake`. */
  enqueue(item: Runnable): void {
    if (this.head === undefined) this.head = item;
    else {
      (this.tail ?? this.head).nextRun = item;
      this.tail = item;
    }
    if (!this.scheduled) this.begin();
  }

  private begin(): void {
    this.scheduled = true;
    if (!this.turnOpen) {
      this.turnOpen = true;
      this.turnStart = this.exact;
      setImmediate(this.onTurn);
    }
    if (this.exact - this.turnStart < SLICE_MS) void resolved.then(this.onDrain);
  }

  private turn(): void {
    if (!this.scheduled) {
      this.turnOpen = false;
      return;
    }
    this.touch();
    this.turnStart = this.exact;
    setImmediate(this.onTurn);
    this.drain();
  }

  private drain(): void {
    if (this.draining) return;
    this.draining = true;
    this.touch();
    try {
      this.runSlice();
    } finally {
      this.draining = false;
      this.scheduled = this.head !== undefined;
      this.deadlines.drained();
      if (this.scheduled && !this.turnOpen) {
        this.turnOpen = true;
        setImmediate(this.onTurn);
      }
    }
  }

  /** Runs what is queued until the slice is over. Apart from `drain`, so that the compiler has room for `run` in it. */
  private runSlice(): void {
    let seen = this.exact;
    let handled = 0;
    while (this.head !== undefined) {
      const item: Runnable = this.head;
      this.head = item.nextRun;
      if (this.head !== undefined) item.nextRun = undefined;
      else if (this.tail !== undefined) this.tail = undefined;
      // An actor that does nothing still counts, so that a queue of them ends the slice too.
      handled += item.run(this.stride) || 1;
      if (handled >= this.stride) {
        handled = 0;
        this.touch();
        const took = this.exact - seen;
        seen = this.exact;
        if (took > SLICE_MS / 4) this.stride = Math.max(1, this.stride >> 1);
        else if (this.stride < MAX_STRIDE) this.stride <<= 1;
        if (this.exact - this.turnStart >= SLICE_MS) return;
      }
    }
  }
}

/** Messages of a scheduled queue in one turn of the event loop. */
const STEPS_A_TURN = 100;

/** Runs one message at a time, of the actor that a schedule chooses. */
class ScheduledQueue extends RunQueue {
  private readonly schedule: Schedule;
  private readonly waiting: Runnable[] = [];
  private steps = 0;
  private readonly onStep = (): void => this.step();

  constructor(clock: SystemClock, schedule: Schedule) {
    super(clock);
    this.schedule = schedule;
  }

  override enqueue(item: Runnable): void {
    if (this.waiting.push(item) === 1) this.soon();
  }

  private soon(): void {
    this.steps++;
    if (this.steps % STEPS_A_TURN === 0) setImmediate(this.onStep);
    else void resolved.then(this.onStep);
  }

  private step(): void {
    const at = this.schedule.next(this.waiting);
    const item = this.waiting[at];
    if (item === undefined) throw new RangeError(`the schedule chose ${at} of ${this.waiting.length} actors`);
    // It stays in its place until it has run, so that what it brings about asks for no step of its own.
    try {
      this.touch();
      item.run(1);
    } finally {
      this.waiting.splice(at, 1);
      if (this.waiting.length > 0) this.soon();
    }
  }
}

/** The queue of a system with this clock and this schedule; each system has its own. */
export function queueFor(clock: SystemClock = nodeClock, schedule?: Schedule): RunQueue {
  return schedule === undefined ? new RunQueue(clock) : new ScheduledQueue(clock, schedule);
}
