import type { Cell } from './cell.ts';

/** The actor that comes after one in the tree below `root`, without recursion: trees may be deep. */
export function following(cell: Cell, root: Cell): Cell | undefined {
  const child = cell.children?.first;
  if (child !== undefined) return child;
  for (let at: Cell | undefined = cell; at !== undefined && at !== root; at = at.parent) {
    if (at.after !== undefined) return at.after;
  }
  return undefined;
}
