import type { StopReason } from '../types.ts';
import type { Cell } from './cell.ts';
import { KEEP_AWAKE, SLEEPY, WATCH_EMPTY } from './flags.ts';
import { ageOf, clock, touch } from './run-queue.ts';
import { requestStop } from './stopping.ts';
import { safeDelay } from './timers.ts';

const idle: StopReason = Object.freeze({ kind: 'idle' });

/** Stops the actor once it had nothing to do for `ms`. One timer an actor: a message only moves a stamp. */
export function stopWhenIdle(cell: Cell, ms: number): void {
  cell.flags |= WATCH_EMPTY;
  touch();
  cell.parts.idleSince = clock.ms;
  arm(cell, ms, ms);
}

function arm(cell: Cell, period: number, delay: number): void {
  const parts = cell.parts;
  parts.idleTimer = setTimeout(() => {
    touch();
    if (!cell.parked) {
      arm(cell, period, period);
      return;
    }
    const left = period - ageOf(parts.idleSince);
    if (left <= 0) requestStop(cell, idle);
    else arm(cell, period, left);
  }, safeDelay(delay));
}

/** Whether the actor may be idle as long as it likes. One that may has no timer, which many small actors feel. */
export function keepAwake(cell: Cell, on: boolean): void {
  if (on === ((cell.flags & KEEP_AWAKE) !== 0)) return;
  const period = cell.options.shutdownAfter;
  if (on) {
    cell.flags = (cell.flags | KEEP_AWAKE) & ~SLEEPY;
    if (cell.rare === undefined) return;
    clearTimeout(cell.rare.idleTimer);
    cell.rare.idleTimer = undefined;
  } else {
    cell.flags &= ~KEEP_AWAKE;
    if (period === undefined || !cell.taking) return;
    touch();
    cell.parts.idleSince = clock.ms;
    arm(cell, period, period);
  }
}

/** The mailbox ran empty. */
export function emptied(cell: Cell): void {
  if (cell.rare !== undefined) cell.rare.idleSince = clock.ms;
  if ((cell.flags & SLEEPY) !== 0 && cell.parked) requestStop(cell, idle);
}

/** Stops the actor when it has nothing left to do: now, or after its present message and all that wait. */
export function sleep(cell: Cell): void {
  cell.flags |= SLEEPY | WATCH_EMPTY;
  if (cell.parked) requestStop(cell, idle);
}
