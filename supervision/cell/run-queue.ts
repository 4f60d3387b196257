import { performance } from 'node:perf_hooks';

/**
 * Which actors have something to do, and when they get to do it. One queue for the process, since there is one loop.
 *
 * The first message of a turn is drained in a microtask, so what an I/O callback asks is answered before the next
 * callback. A turn gets SLICE_MS; what is left then waits for setImmediate, behind timers and sockets. A marker
 * (setImmediate) tells when a turn ended, so chains of awaited asks cannot hold the loop either.
 */

/** Something with work: run handles at most `limit` messages and says how many it did. */
export interface Runnable {
  nextRun: Runnable | undefined;
  run(limit: number): number;
}

const SLICE_MS = 2;
/** Messages between two looks at the clock; fewer when handlers are slow. */
const MAX_STRIDE = 32;

/**
 * Coarse time, refreshed with each look at the clock: `ms` in 31 bits that wrap, `exact` as performance.now gives it.
 */
export const clock = { ms: 0, exact: 0 };

let head: Runnable | undefined;
/** The last in the queue, while there are two or more. */
let tail: Runnable | undefined;
let scheduled = false;
let draining = false;
let turnOpen = false;
let turnStart = 0;
let stride = 8;
let afterDrain: () => void = () => {};

const resolved = Promise.resolve();

/** Reads the clock. */
export function touch(): void {
  const now = performance.now();
  clock.exact = now;
  clock.ms = now & 0x7fff_ffff;
}

/** Refreshes the clock unless a drain is coming or going on, which does so itself. */
export function wake(): void {
  if (!scheduled) touch();
}

/** Longer ages begin at 0 again: the range of the stamps, less some minutes by which one may seem to be ahead. */
export const MAX_AGE_MS = 0x7fff_ffff - 0xf_ffff;

/** Milliseconds from a coarse stamp to now, up to MAX_AGE_MS: 24.8 days. */
export function ageOf(stamp: number): number {
  const age = (clock.ms - stamp) & 0x7fff_ffff;
  return age > MAX_AGE_MS ? 0 : age;
}

/** Whether handlers run right now. */
export function isDraining(): boolean {
  return draining;
}

/** Calls `f` after each drain. One caller: the deadlines of asks. */
export function onDrained(f: () => void): void {
  afterDrain = f;
}

/** Puts `item` last. The caller makes sure that it is not queued yet, and has called `wake`. */
export function enqueue(item: Runnable): void {
  if (head === undefined) head = item;
  else {
    (tail ?? head).nextRun = item;
    tail = item;
  }
  if (!scheduled) schedule();
}

function schedule(): void {
  scheduled = true;
  if (!turnOpen) {
    turnOpen = true;
    turnStart = clock.exact;
    setImmediate(onImmediate);
  }
  if (clock.exact - turnStart < SLICE_MS) void resolved.then(drain);
}

function onImmediate(): void {
  if (!scheduled) {
    turnOpen = false;
    return;
  }
  touch();
  turnStart = clock.exact;
  setImmediate(onImmediate);
  drain();
}

function drain(): void {
  if (draining) return;
  draining = true;
  touch();
  let seen = clock.exact;
  let handled = 0;
  try {
    while (head !== undefined) {
      const item: Runnable = head;
      head = item.nextRun;
      if (head !== undefined) item.nextRun = undefined;
      else if (tail !== undefined) tail = undefined;
      // An actor that does nothing still counts, so that a queue of them ends the slice too.
      handled += item.run(stride) || 1;
      if (handled >= stride) {
        handled = 0;
        touch();
        const took = clock.exact - seen;
        seen = clock.exact;
        if (took > SLICE_MS / 4) stride = Math.max(1, stride >> 1);
        else if (stride < MAX_STRIDE) stride <<= 1;
        if (clock.exact - turnStart >= SLICE_MS) break;
      }
    }
  } finally {
    draining = false;
    scheduled = head !== undefined;
    afterDrain();
    if (scheduled && !turnOpen) {
      turnOpen = true;
      setImmediate(onImmediate);
    }
  }
}
