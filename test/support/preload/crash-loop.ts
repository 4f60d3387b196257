/** A planted bug: loaded into a process under test (`node --import`), two parts of its service end soon after each start, from SIGUSR2 on. */
import { Cell } from '../../../supervision/cell/cell.ts';
import { stop } from '../../../supervision/index.ts';

const PARTS = ['auth/login', 'auth/news'];
const SOON_MS = 20;

let root: Cell | undefined;
const { goOn } = Cell.prototype;
Cell.prototype.goOn = function (this: Cell): void {
  goOn.call(this);
  if (root !== undefined) return;
  root = this;
  while (root.parent !== undefined) root = root.parent;
};

function stopParts(under: Cell | undefined): void {
  for (let cell = under?.children?.first; cell !== undefined; cell = cell.after) {
    if (PARTS.includes(cell.kind.kind)) stop(cell);
    else stopParts(cell);
  }
}

process.on('SIGUSR2', () => setInterval(() => stopParts(root), SOON_MS).unref());
