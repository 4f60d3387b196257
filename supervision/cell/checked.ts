import type { Cell } from './cell.ts';
import { illegalFlags } from './flags.ts';

/** Looks at an actor between two steps of its stop or its reset, in a system that wants to hear of a problem. */
export function checked(cell: Cell): void {
  const report = cell.kind.system.onIllegalFlags;
  if (report === undefined) return;
  const problem = illegalFlags(cell.flags);
  if (problem !== undefined) report(`${cell.path} has the flags ${cell.flags}: ${problem}`);
}
