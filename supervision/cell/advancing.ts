import type { Cell } from './cell.ts';
import { checked } from './checked.ts';
import { RESETTING, STOPPING } from './flags.ts';
import { lastResort } from './last-resort.ts';
import { advanceReset } from './restarting.ts';
import { advanceStop, beginStop, withParent } from './stopping.ts';

/**
 * Goes on with a stop or a reset as far as it can get now, and with what follows from it below and above. It is a loop,
 * since a tree may be deeper than the stack. `untold` holds the children that must be told to stop, the next one last.
 */
export function advance(first: Cell): void {
  const untold: Cell[] = [];
  for (let at: Cell | undefined = first; at !== undefined; ) at = advanceOne(at, untold) ?? nextTold(untold);
}

/** Gives the actor above when that may go on now. */
function advanceOne(cell: Cell, untold: Cell[]): Cell | undefined {
  checked(cell);
  try {
    if ((cell.flags & STOPPING) !== 0) return advanceStop(cell, untold);
    if ((cell.flags & RESETTING) !== 0) advanceReset(cell, untold);
  } catch (error) {
    lastResort(cell, error);
  }
  return undefined;
}

/** Tells the next child, past those that stop already. */
function nextTold(untold: Cell[]): Cell | undefined {
  for (let child = untold.pop(); child !== undefined; child = untold.pop()) {
    if (beginStop(child, withParent)) return child;
  }
  return undefined;
}
