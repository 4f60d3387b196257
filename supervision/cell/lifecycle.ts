import { type Cell, setLifecycle } from './cell.ts';
import { CellContext } from './context.ts';
import { crashed } from './crashes.ts';
import { RESETTING, STOPPING } from './flags.ts';
import { emptied } from './idle.ts';
import { checked, lastResort } from './last-resort.ts';
import { handleObserved } from './observing.ts';
import { awaitRun, launch } from './pending.ts';
import { advanceReset, initialised } from './restarting.ts';
import { advanceStop, beginStop, withParent } from './stopping.ts';

/**
 * Goes on with a stop or a reset as far as it can get now, and with what follows from it below and above. It is a loop,
 * since a tree may be deeper than the stack. `untold` holds the children that must be told to stop, the next one last.
 */
function advance(first: Cell): void {
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

/** Joins the cell with the files that handle its rare events; importing this file is enough. */
export function joinLifecycle(): void {
  setLifecycle({
    crashed(cell, msg, meta, error, init) {
      try {
        crashed(cell, msg, meta, error, init);
      } catch (thrown) {
        lastResort(cell, thrown);
      }
    },
    initialised(cell, state) {
      try {
        initialised(cell, state);
      } catch (thrown) {
        lastResort(cell, thrown);
      }
    },
    emptied,
    advance,
    awaited: awaitRun,
    launched: launch,
    observe: handleObserved,
    context: (cell) => cell.hooks?.context?.(cell) ?? new CellContext(cell),
  });
}
