import type { Cell } from '../cell/cell.ts';
import { cellOf } from '../cell/context.ts';
import type { CrashNote } from '../cell/crash-notes.ts';
import { CLOSED } from '../cell/flags.ts';
import { type HandlerNow, handlersNow, messageType } from '../cell/handlers.ts';
import { sleep } from '../cell/idle.ts';
import { requestReset } from '../cell/restarting.ts';
import { SpawnError } from '../common/errors.ts';
import type { AnyRef, SystemRef } from '../common/ref.ts';
import { nodeOf, type TreeNode } from './stats.ts';

/** One actor in detail. */
export interface ActorDetails extends Omit<TreeNode, 'children' | 'omitted' | 'handler'> {
  /** How many living children it has. */
  readonly children: number;
  /** The handlers that are pending, those that began first, at most 20. */
  readonly handlers: readonly HandlerNow[];
  /** What waits, by type of message, in order of appearance; beyond 20 types together as `others`. */
  readonly waiting: readonly { readonly message: string; readonly count: number }[];
  /** The last crash of this actor, or of one before it at the same path. Those of 1,000 paths are kept. */
  readonly lastCrash?: CrashNote;
}

const MAX_HANDLERS = 20;
const MAX_TYPES = 20;

/**
 * The actor at a path, with the system's name (`system://parent/child`) or without (`parent/child`); undefined when
 * none lives there. Names are percent-encoded. Finding an entity, or an unnamed actor, walks its siblings.
 */
export function find(system: SystemRef, path: string): AnyRef | undefined {
  const root = cellOf(system);
  if (path.includes('://') && !path.startsWith(root.path)) return undefined;
  const segments = (path.startsWith(root.path) ? path.slice(root.path.length) : path).split('/');
  let cell: Cell | undefined = root;
  for (const segment of segments) {
    if (segment === '') continue;
    const name = decoded(segment);
    cell = name === undefined ? undefined : childOf(cell, name);
    if (cell === undefined) return undefined;
  }
  return cell;
}

/** What an actor does now, what waits for it, and how it crashed last. */
export function inspect(ref: AnyRef | SystemRef): ActorDetails {
  const cell = cellOf(ref);
  cell.kind.queue.touch();
  const { children: _children, omitted: _omitted, handler: _handler, ...node } = nodeOf(cell, cell.path, 0);
  const lastCrash = cell.kind.system.crashes.of(cell.path);
  return {
    ...node,
    children: cell.children?.count ?? 0,
    handlers: handlersNow(cell, MAX_HANDLERS),
    waiting: waitingOf(cell),
    ...(lastCrash === undefined ? {} : { lastCrash }),
  };
}

/**
 * Starts an actor afresh, as the decision `reset` does. False when it has had too many resets within its window, or is
 * ending: nothing is done then. Throws SpawnError `invalid` for a system.
 */
export function reset(ref: AnyRef): boolean {
  const cell = cellOf(ref);
  if (cell.isSystem) throw new SpawnError('invalid', 'a system cannot be reset');
  return cell.taking && requestReset(cell);
}

/** Whether the actor is an entity: it wakes from storage, and may be let go of. */
export function isEntity(ref: AnyRef): boolean {
  return cellOf(ref).hooks?.isEntity === true;
}

/**
 * Lets go of an entity once it has handled what waits for it: it goes to sleep, and the next message wakes it from
 * storage. Throws SpawnError `invalid` for any other actor.
 */
export function release(ref: AnyRef): void {
  if (!isEntity(ref)) throw new SpawnError('invalid', `${ref.path} is no entity`);
  const cell = cellOf(ref);
  if (cell.taking) sleep(cell);
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** Of two entities of one name, one of which is ending, the one that takes messages. */
function childOf(parent: Cell, name: string): Cell | undefined {
  const named = parent.children?.names?.get(name);
  if (named !== undefined) return named;
  let found: Cell | undefined;
  for (let child = parent.children?.first; child !== undefined; child = child.after) {
    if (child.name !== name) continue;
    found = child;
    if ((child.flags & CLOSED) === 0) break;
  }
  return found;
}

function waitingOf(cell: Cell): ActorDetails['waiting'] {
  const counts = new Map<string, number>();
  for (const message of cell.waiting()) {
    const type = messageType(cell, message);
    const key = counts.has(type) || counts.size < MAX_TYPES ? type : 'others';
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return Array.from(counts, ([message, count]) => ({ message, count }));
}
