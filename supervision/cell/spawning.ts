import { checkBehaviour, checkHandler } from '../checks.ts';
import { SpawnError } from '../errors.ts';
import { Cell, type MessageHandler } from './cell.ts';
import { type Behaviour, type CellHooks, Children, noOptions } from './cell-parts.ts';
import { CHILDREN_TOLD, ENDED, STATELESS, STOPPING } from './flags.ts';
import { FreezingCell } from './freezing-cell.ts';
import { stopWhenIdle } from './idle.ts';
import type { KindStats, SystemCore } from './kind-stats.ts';
import { joinLifecycle } from './lifecycle.ts';
import { initialise } from './restarting.ts';
import { stoppedParent } from './stopping.ts';
import { TracedCell } from './traced-cell.ts';

joinLifecycle();

const MAX_NAME = 255;

/** What only supervisors and entities set. */
interface SpawnExtras {
  readonly hooks?: CellHooks<Cell>;
  /** The name, when it is not in the options; then it need not be unique, and is not looked up by. */
  readonly label?: string;
  /** Stateless, with so many messages at once. */
  readonly concurrency?: number;
}

/** Makes an actor under `parent` and begins to make its state. Throws ActorError `stopped`, or SpawnError. */
export function spawnCell(parent: Cell, f: MessageHandler, options: Behaviour, extras?: SpawnExtras): Cell {
  // CHILDREN_TOLD: a reset has told the children of the former life to end, and this one would not hear of it.
  if ((parent.flags & (STOPPING | ENDED | CHILDREN_TOLD)) !== 0) throw stoppedParent(parent);
  if (typeof f !== 'function') checkHandler(f);
  const system = parent.kind.system;
  if (options !== system.checkedOptions) checkOnce(system, options);
  const { name } = options;
  let siblings = parent.children;
  if (name !== undefined) checkName(parent, name, siblings);
  const kind = options.kind === undefined ? system.plain : system.kindOf(options.kind);
  const label = name ?? extras?.label ?? system.nextLabel++;
  const cell = system.hasPlainCells
    ? new Cell(parent, label, kind, f, options, extras?.hooks)
    : new (classOf(kind))(parent, label, kind, f, options, extras?.hooks);
  if (siblings === undefined) {
    siblings = new Children<Cell>();
    parent.parts.children = siblings;
  }
  link(siblings, cell);
  if (name !== undefined) {
    if (siblings.names === undefined) siblings.names = new Map();
    siblings.names.set(name, cell);
  }
  kind.alive++;
  if (extras?.concurrency !== undefined) {
    cell.flags |= STATELESS;
    if (extras.concurrency > 1) cell.parts.concurrency = extras.concurrency;
  }
  if (options.shutdownAfter !== undefined) stopWhenIdle(cell, options.shutdownAfter);
  if (options.initialStateFunc === undefined) cell.state = options.initialState;
  else initialise(cell);
  return cell;
}

/** Many actors have the same options, which need be checked once. */
function checkOnce(system: SystemCore, options: Behaviour): void {
  if (options === noOptions) return;
  checkBehaviour(options);
  system.checkedOptions = options;
}

function classOf({ tracer, system }: KindStats): typeof Cell {
  if (system.freezesMessages) return FreezingCell;
  return tracer === undefined ? Cell : TracedCell;
}

function link(siblings: Children<Cell>, cell: Cell): void {
  const last = siblings.last;
  cell.before = last;
  if (last === undefined) siblings.first = cell;
  else last.after = cell;
  siblings.last = cell;
  siblings.count++;
}

function checkName(parent: Cell, name: string, siblings: Children<Cell> | undefined): void {
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME || name.includes('/')) {
    throw new SpawnError('invalid', `name must be a text of 1 to ${MAX_NAME} characters without a slash`);
  }
  if (/^\$\d+$/.test(name))
    throw new SpawnError('invalid', `name must not be ${name}: that is a name of those that were given none`);
  if (siblings?.names?.has(name) === true) {
    throw new SpawnError('name_taken', `${parent.path} already has a child named ${name}`);
  }
}
