import { atLeast } from '../errors.ts';
import type { Cancel } from '../types.ts';
import type { Cell } from './cell.ts';

const MAX_TIMER_MS = 2_147_483_647;

/** The timer of an actor that has ended: none. */
const nothing: Cancel = () => {};

/** A delay Node can keep: a longer one would fire at once. */
export function safeDelay(ms: number): number {
  return Math.min(ms, MAX_TIMER_MS);
}

/** Sends `msg` to the actor in `ms`. */
export function after(cell: Cell, ms: number, msg: unknown): Cancel {
  atLeast(0, ms, 'after');
  if (!cell.taking) return nothing;
  const timers = timersOf(cell);
  const own = { cancel: () => clearTimeout(timer) };
  const timer = setTimeout(() => {
    timers.delete(own);
    cell.deliver(msg);
  }, safeDelay(ms));
  timers.add(own);
  return () => {
    own.cancel();
    timers.delete(own);
  };
}

/**
 * Sends `msg` to the actor every `ms`; a beat is left out while messages wait, so a slow actor does not pile them up.
 */
export function every(cell: Cell, ms: number, msg: unknown): Cancel {
  atLeast(1, ms, 'every');
  if (!cell.taking) return nothing;
  const timers = timersOf(cell);
  const timer = setInterval(() => {
    if (!cell.holds(msg)) cell.deliver(msg);
  }, safeDelay(ms));
  const own = { cancel: () => clearInterval(timer) };
  timers.add(own);
  return () => {
    own.cancel();
    timers.delete(own);
  };
}

/** Ends all timers of an actor. */
export function cancelTimers(cell: Cell): void {
  const timers = cell.rare?.timers;
  if (timers === undefined) return;
  for (const timer of timers) timer.cancel();
  timers.clear();
}

function timersOf(cell: Cell): Set<{ cancel(): void }> {
  const parts = cell.parts;
  if (parts.timers === undefined) parts.timers = new Set();
  return parts.timers;
}
