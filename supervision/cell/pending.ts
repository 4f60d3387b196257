import { type Cell, lifecycle } from './cell.ts';
import { AsyncRun } from './cell-parts.ts';
import { AWAITING } from './flags.ts';
import type { Meta } from './mailbox.ts';

/** Waits for a stateful handler or, with `init`, an initial state: nothing else is handled until it has settled. */
export function awaitRun(cell: Cell, promise: PromiseLike<unknown>, msg: unknown, meta: Meta, init: boolean): void {
  const run = new AsyncRun(msg, meta, init, cell.kind.queue.ms);
  cell.parts.running = run;
  cell.flags |= AWAITING;
  Promise.resolve(promise).then(
    (state) => {
      if (!landed(cell, run)) return;
      if (init) lifecycle.initialised(cell, state);
      else {
        cell.state = state;
        cell.goOn();
      }
    },
    (error: unknown) => {
      if (landed(cell, run, error)) lifecycle.crashed(cell, msg, meta, error, init);
    },
  );
}

/** Whether `run` is still the one waited for. */
function landed(cell: Cell, run: AsyncRun, error?: unknown): boolean {
  run.observed?.end(error);
  if (cell.rare?.running !== run) return false;
  cell.rare.running = undefined;
  cell.flags &= ~AWAITING;
  return true;
}

/** Waits for a stateless handler, beside others up to the actor's concurrency. */
export function launch(cell: Cell, promise: PromiseLike<unknown>, msg: unknown, meta: Meta): void {
  const rare = cell.parts;
  const run = new AsyncRun(msg, meta, false, cell.kind.queue.ms);
  if (rare.inflight === undefined) rare.inflight = new Set();
  rare.inflight.add(run);
  if (rare.inflight.size >= rare.concurrency) cell.flags |= AWAITING;
  const land = (error?: unknown): boolean => {
    run.observed?.end(error);
    if (rare.inflight?.delete(run) !== true) return false;
    cell.flags &= ~AWAITING;
    return true;
  };
  Promise.resolve(promise).then(
    () => {
      if (land()) cell.goOn();
    },
    (error: unknown) => {
      if (!land(error)) return;
      lifecycle.crashed(cell, msg, meta, error, false);
      cell.goOn();
    },
  );
}
