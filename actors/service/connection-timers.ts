/**
 * The times of open streams and of shells: when a token ends, and when they say again that they are there. One timer
 * looks at all of them: a timer each would weigh more than the stream.
 */

/** A stream as the timer sees it. */
export interface TimedConnection {
  /** Its place in the timer's list; the timer's own. -1: nowhere. */
  place: number;
  /** The tick of its end, NEVER if it has none, and the one of its next attach. */
  readonly endsAt: number;
  attachAt: number;
  /** Its end has come. */
  expired?(): void;
  attach(): void;
}

/** How late a time may be. */
const TICK_MS = 250;
/** A tick that never comes: the largest number that the engine keeps without a box. */
export const NEVER = 2 ** 30;
/** How often a subscription is repeated, so that it outlives a restart of the actor it is with. */
const ATTACH_TICKS = 20_000 / TICK_MS;
const UNANSWERED_TICKS = 2000 / TICK_MS;

const timed: TimedConnection[] = [];
let timer: NodeJS.Timeout | undefined;

const now = () => Math.floor(performance.now() / TICK_MS);

/** The tick after `ms`; NEVER for what is years away. */
export function tickIn(ms: number): number {
  return Math.min(NEVER, Math.ceil((performance.now() + Math.max(0, ms)) / TICK_MS));
}

/** The tick of the attach after the one that is made now. */
export function nextAttach(): number {
  return now() + ATTACH_TICKS;
}

/** The same, when nothing comes back: whoever it was meant for may have ended meanwhile. */
export function soonAttach(): number {
  return now() + UNANSWERED_TICKS;
}

/** Watches the times of a stream until `stopTimers`. */
export function startTimers(stream: TimedConnection): void {
  stream.place = timed.length;
  timed.push(stream);
  timer ??= setInterval(tick, TICK_MS);
}

/** Lets go of a stream; the timer ends with the last one. Again does nothing. */
export function stopTimers(stream: TimedConnection): void {
  if (timed[stream.place] !== stream) return;
  const last = timed.pop();
  if (last !== undefined && last !== stream) {
    timed[stream.place] = last;
    last.place = stream.place;
  }
  stream.place = -1;
  if (timed.length > 0) return;
  clearInterval(timer);
  timer = undefined;
}

function tick(): void {
  const at = now();
  // What is called only sends messages: the list stays as it is meanwhile.
  for (const stream of timed) {
    if (at >= stream.endsAt) stream.expired?.();
    else if (at >= stream.attachAt) {
      stream.attachAt = at + ATTACH_TICKS;
      stream.attach();
    }
  }
}
