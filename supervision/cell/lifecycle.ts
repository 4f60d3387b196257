import { setLifecycle } from './cell.ts';
import { CellContext } from './context.ts';
import { crashed } from './crashes.ts';
import { RESETTING, STOPPING } from './flags.ts';
import { emptied } from './idle.ts';
import { advanceReset, initialised } from './restarting.ts';
import { advanceStop } from './stopping.ts';

/** Joins the cell with the files that handle its rare events; importing this file is enough. */
export function joinLifecycle(): void {
  setLifecycle({
    crashed,
    initialised,
    emptied,
    advance(cell) {
      if ((cell.flags & STOPPING) !== 0) advanceStop(cell);
      else if ((cell.flags & RESETTING) !== 0) advanceReset(cell);
    },
    context: (cell) => cell.hooks?.context?.(cell) ?? new CellContext(cell),
  });
}
