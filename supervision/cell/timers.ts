import { atLeast } from '../errors.ts';
import type { Cancel } from '../types.ts';
import type { Cell } from './cell.ts';
import { notify } from './notify.ts';
import { Timer } from './timer.ts';

/** The timer of an actor that has ended: none. */
const nothing: Cancel = () => {};

/** Sends `msg` to the actor in `ms`, as a signal. */
export function after(cell: Cell, ms: number, msg: unknown): Cancel {
  atLeast(0, ms, 'after');
  if (!cell.taking) return nothing;
  const timers = timersOf(cell);
  const timer = new Timer(
    cell.kind.queue.clock,
    () => {
      timers.delete(timer);
      notify(cell, msg);
    },
    ms / cell.kind.system.pace,
  );
  return owned(timers, timer);
}

/**
 * Sends `msg` to the actor every `ms`, unless it still waits. A beat is no signal: taken first, those of an actor that
 * is slower than they come would leave no turn to its messages.
 */
export function every(cell: Cell, ms: number, msg: unknown): Cancel {
  atLeast(1, ms, 'every');
  if (!cell.taking) return nothing;
  const beat = (): void => {
    if (cell.holds(msg)) return;
    const { queue } = cell.kind;
    queue.wake();
    // Not by `deliver`: a beat belongs to no trace, least of all for ever to that of whoever set it.
    cell.post(msg, queue.ms);
  };
  return owned(timersOf(cell), new Timer(cell.kind.queue.clock, beat, ms / cell.kind.system.pace, true));
}

function owned(timers: Set<Timer>, timer: Timer): Cancel {
  timers.add(timer);
  return () => {
    timer.cancel();
    timers.delete(timer);
  };
}

/** Ends all timers of an actor. */
export function cancelTimers(cell: Cell): void {
  const timers = cell.rare?.timers;
  if (timers === undefined) return;
  for (const timer of timers) timer.cancel();
  timers.clear();
}

function timersOf(cell: Cell): Set<Timer> {
  const parts = cell.parts;
  if (parts.timers === undefined) parts.timers = new Set();
  return parts.timers;
}
