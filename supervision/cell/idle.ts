import type { StopReason } from '../common/types.ts';
import type { Cell } from './cell.ts';
import { KEEP_AWAKE, SLEEPY, WATCH_EMPTY } from './flags.ts';
import { MAX_AGE_MS } from './run-queue.ts';
import { requestStop } from './stopping.ts';

const idle: StopReason = Object.freeze({ kind: 'idle' });

/** The longest time between two looks at an idle actor: its stamp is read before it wraps. */
const MAX_LOOK_MS = MAX_AGE_MS / 2;

/** Stops the actor once it had nothing to do for `ms`. One timer an actor: a message only moves a stamp. */
export function stopWhenIdle(cell: Cell, ms: number): void {
  cell.flags |= WATCH_EMPTY;
  beginIdling(cell, ms);
}

function beginIdling(cell: Cell, period: number): void {
  const { queue } = cell.kind;
  queue.touch();
  cell.parts.idleSince = queue.ms;
  arm(cell, period, queue.ms, queue.exact);
}

/** `stamp`: what the last look read; `since`: when the actor became idle, if the stamp is still that one. */
function arm(cell: Cell, period: number, stamp: number, since: number): void {
  const { parts } = cell;
  const { queue } = cell.kind;
  const left = Math.max(0, since + period - queue.exact);
  parts.idleTimer = queue.clock.setTimeout(
    () => {
      queue.touch();
      const seen = parts.idleSince;
      const idleSince = seen === stamp ? since : queue.exact - queue.ageOf(seen);
      if (!cell.parked) arm(cell, period, seen, queue.exact);
      else if (queue.exact - idleSince >= period) requestStop(cell, idle);
      else arm(cell, period, seen, idleSince);
    },
    Math.min(left, MAX_LOOK_MS),
  );
}

/** Whether the actor may be idle as long as it likes. One that may has no timer, which many small actors feel. */
export function keepAwake(cell: Cell, on: boolean): void {
  if (on === ((cell.flags & KEEP_AWAKE) !== 0)) return;
  const period = cell.options.shutdownAfter;
  if (on) {
    cell.flags = (cell.flags | KEEP_AWAKE) & ~SLEEPY;
    if (cell.rare === undefined) return;
    cell.rare.idleTimer?.close();
    cell.rare.idleTimer = undefined;
  } else {
    cell.flags &= ~KEEP_AWAKE;
    if (period === undefined || !cell.taking) return;
    beginIdling(cell, period);
  }
}

/** The mailbox ran empty. */
export function emptied(cell: Cell): void {
  // The end of a handler's promise may be the first thing that happens after a long time.
  const { queue } = cell.kind;
  queue.wake();
  if (cell.rare !== undefined) cell.rare.idleSince = queue.ms;
  if ((cell.flags & SLEEPY) !== 0 && cell.parked) requestStop(cell, idle);
}

/** Stops the actor when it has nothing left to do: now, or after its present message and all that wait. */
export function sleep(cell: Cell): void {
  cell.flags |= SLEEPY | WATCH_EMPTY;
  if (cell.parked) requestStop(cell, idle);
}
