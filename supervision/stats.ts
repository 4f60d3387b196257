import type { Cell } from './cell/cell.ts';
import { cellOf } from './cell/context.ts';
import { CLOSED, HELD, RESETTING, WAITING } from './cell/flags.ts';
import { following, type HandlerNow, handlersNow, oldestAge } from './cell/handlers.ts';
import type { KindStats } from './cell/kind-stats.ts';
import { pathSegment, type SystemRef } from './ref.ts';

/** Numbers of all actors of one kind. Counts are since the start of the system. */
export interface KindNumbers
  extends Pick<KindStats, 'alive' | 'handled' | 'failed' | 'restarts' | 'dropped' | 'expired' | 'cancelled'> {
  /** Messages that wait. */
  depth: number;
  /** Age in ms of the oldest message that waits or is in a handler; 0 when there is none. */
  oldestMs: number;
}

/** What `stats` says. */
export interface SystemNumbers {
  readonly kinds: Record<string, KindNumbers>;
  readonly deadLetters: number;
}

/** The numbers of a system, by kind of actor. Visits every actor once: some milliseconds for 100,000. */
export function stats(system: SystemRef): SystemNumbers {
  const root = cellOf(system);
  const core = root.kind.system;
  core.queue.touch();
  const kinds = new Map<string, KindNumbers>();
  for (const { kind, alive, handled, failed, restarts, dropped, expired, cancelled } of core.kinds.values()) {
    const counted = { handled, failed, restarts, dropped, expired, cancelled };
    kinds.set(kind, { alive, depth: 0, oldestMs: 0, ...counted });
  }
  for (let cell = root.children?.first; cell !== undefined; cell = following(cell, root)) {
    // Most have nothing to do: a look at two of their fields is all they cost.
    if ((cell.flags & WAITING) === 0 && cell.rare === undefined) continue;
    const numbers = kinds.get(cell.kind.kind);
    if (numbers === undefined) continue;
    numbers.depth += cell.depth;
    numbers.oldestMs = Math.max(numbers.oldestMs, oldestAge(cell));
  }
  // A kind may be called `__proto__`: entries become own properties whatever their names are.
  return { kinds: Object.fromEntries(kinds), deadLetters: core.letters.count };
}

/** One actor of a tree, as JSON. `omitted`: children left out because there were more than asked for. */
export interface TreeNode {
  readonly name: string;
  readonly kind: string;
  readonly path: string;
  readonly status: 'idle' | 'busy' | 'held' | 'stopping';
  readonly depth: number;
  readonly oldestMs: number;
  /** Resets that count towards its intensity: those within the window of the latest one. */
  readonly restarts: number;
  /** The handler that has been pending for longest, if any is. */
  readonly handler?: HandlerNow;
  readonly children: TreeNode[];
  readonly omitted?: number;
}

/** What `tree` is to leave out. */
interface TreeOptions {
  /** Of each actor's children so many, the oldest. Default 1,000. */
  readonly maxChildren?: number;
  /** Levels below the root. Default 500: JSON.stringify overflows the stack at some thousands. */
  readonly maxDepth?: number;
}

/** The tree of a system, its root first. */
export function tree(system: SystemRef, options: TreeOptions = {}): TreeNode {
  const { maxChildren = 1000, maxDepth = 500 } = options;
  const root = cellOf(system);
  root.kind.queue.touch();
  const top: TreeNode[] = [];
  // Without recursion: trees may be deep. The next one is the last.
  const todo = [{ cell: root, level: 0, path: root.path, into: top }];
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { cell, level, path, into } = next;
    const node = nodeOf(cell, path, Math.min(cell.children?.count ?? 0, level < maxDepth ? maxChildren : 0));
    into.push(node);
    const listed: Cell[] = [];
    for (let child = cell.children?.first; child !== undefined; child = child.after) {
      if (listed.length === maxChildren || level === maxDepth) break;
      listed.push(child);
    }
    for (const child of listed.reverse()) {
      const place = level === 0 ? path : `${path}/`;
      todo.push({ cell: child, level: level + 1, path: place + pathSegment(child.name), into: node.children });
    }
  }
  const [picture] = top;
  if (picture === undefined) throw new TypeError('a tree has a root');
  return picture;
}

/** An actor without its children. `listed`: how many of those the tree has. The clock must be fresh. */
export function nodeOf(cell: Cell, path: string, listed: number): TreeNode {
  const { name, depth } = cell;
  const status = statusOf(cell);
  const restarts = cell.rare?.restarts?.length ?? 0;
  const omitted = (cell.children?.count ?? 0) - listed;
  const [handler] = handlersNow(cell, 1);
  return {
    name,
    kind: cell.kind.kind,
    path,
    status,
    depth,
    oldestMs: oldestAge(cell),
    restarts,
    children: [],
    ...(handler === undefined ? {} : { handler }),
    ...(omitted > 0 ? { omitted } : {}),
  };
}

function statusOf(cell: Cell): TreeNode['status'] {
  if ((cell.flags & CLOSED) !== 0) return 'stopping';
  if ((cell.flags & (HELD | RESETTING)) !== 0) return 'held';
  return cell.parked ? 'idle' : 'busy';
}

/** How often each latency was seen: by bucket of LATENCY_BOUNDS_MS, the last one for what is above all bounds. */
interface LatencyCounts {
  readonly counts: readonly number[];
  readonly sumMs: number;
}

/** The latencies of one type of message at one kind of actor, of the messages that were looked at. */
export interface LatencyNumbers {
  readonly kind: string;
  /** As `SystemOptions.messageType` names it; `other` for all beyond 32 of a kind, or 200 in all. */
  readonly type: string;
  /** From the sending to the handler, in whole ms. */
  readonly queue: LatencyCounts;
  /** From the call of the handler to its end, or to that of its promise. */
  readonly handler: LatencyCounts;
}

/**
 * The latencies of a system, live. Of each kind of actor one message a millisecond is looked at: the counts are those
 * of a sample.
 */
export function latencies(system: SystemRef): readonly LatencyNumbers[] {
  return cellOf(system).kind.system.latencies.all;
}
