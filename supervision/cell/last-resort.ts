import type { Cell } from './cell.ts';
import { illegalFlags, STOPPING } from './flags.ts';
import { kill, requestStop } from './stopping.ts';

/**
 * Something threw where only the engine works, by way of what it was given: an option that cannot be read, a value that
 * cannot be looked at. The actor is stopped, or killed where it stops already. Never throws.
 */
export function lastResort(cell: Cell, error: unknown): void {
  const { log } = cell.kind.system;
  log.error({ actor: cell.path, kind: cell.kind.kind, err: error }, 'supervision failed: the actor is stopped');
  try {
    if ((cell.flags & STOPPING) === 0) requestStop(cell, { kind: 'crashed', error });
    else kill(cell);
  } catch (err) {
    log.error({ actor: cell.path, kind: cell.kind.kind, err }, 'an actor could not be stopped');
  }
}

/** Looks at an actor between two steps of its stop or its reset, in a system that wants to hear of a problem. */
export function checked(cell: Cell): void {
  const report = cell.kind.system.onIllegalFlags;
  if (report === undefined) return;
  const problem = illegalFlags(cell.flags);
  if (problem !== undefined) report(`${cell.path} has the flags ${cell.flags}: ${problem}`);
}
