import type { Cell } from './cell.ts';
import { illegalFlags } from './flags.ts';

let report: ((problem: string) => void) | undefined;

/** From here on `f` hears of each actor whose flags do not go together. For tests; nothing is looked at otherwise. */
export function onIllegalFlags(f: (problem: string) => void): void {
  report = f;
}

/** Looks at an actor between two steps of its stop or its reset. */
export function checked(cell: Cell): void {
  if (report === undefined) return;
  const problem = illegalFlags(cell.flags);
  if (problem !== undefined) report(`${cell.path} has the flags ${cell.flags}: ${problem}`);
}
