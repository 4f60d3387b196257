import { advance } from './advancing.ts';
import { setLifecycle } from './cell.ts';
import { CellContext } from './context.ts';
import { crashed } from './crashes.ts';
import { emptied } from './idle.ts';
import { lastResort } from './last-resort.ts';
import { handleObserved } from './observing.ts';
import { awaitRun, launch } from './pending.ts';
import { initialised } from './restarting.ts';

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
