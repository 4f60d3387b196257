import { Ask } from './asks.ts';
import type { Cell } from './cell.ts';
import type { AsyncRun } from './cell-parts.ts';
import type { Meta } from './mailbox.ts';

/** A handler that is pending: the type of its message, and for how many ms it has been running. */
export interface HandlerNow {
  readonly message: string;
  readonly ms: number;
}

/** What stands for the type of a message while a state is being made. */
export const INITIAL_STATE = 'initial state';

const MAX_TYPE = 64;

/**
 * The type of a message for people: what the system's `messageType` says, else its text `type`, else its class. Never
 * more of a message, which may hold secrets. Never throws.
 */
export function messageType(cell: Cell, msg: unknown): string {
  try {
    return (cell.kind.system.messageType?.(msg) ?? plainType(msg)).slice(0, MAX_TYPE);
  } catch {
    return 'unknown';
  }
}

function plainType(msg: unknown): string {
  if (typeof msg !== 'object' || msg === null) return msg === null ? 'null' : typeof msg;
  if ('type' in msg && typeof msg.type === 'string') return msg.type;
  if (msg instanceof Ask) return 'ask';
  const name: unknown = msg.constructor?.name;
  return typeof name === 'string' && name !== '' ? name : 'object';
}

/** What a pending handler works on. */
export function typeOfRun(cell: Cell, run: AsyncRun): string {
  return run.init ? INITIAL_STATE : messageType(cell, run.msg);
}

/** The handlers that are pending, those that began first, at most `max`. The clock must be fresh. */
export function handlersNow(cell: Cell, max: number): HandlerNow[] {
  const { rare } = cell;
  if (rare === undefined) return [];
  const found: HandlerNow[] = [];
  // A set is in order of insertion.
  for (const run of rare.running === undefined ? (rare.inflight ?? []) : [rare.running]) {
    if (found.length === max) break;
    found.push({ message: typeOfRun(cell, run), ms: cell.kind.queue.ageOf(run.since) });
  }
  return found;
}

/**
 * Milliseconds the oldest message has been waiting or in its handler; 0 when there is none. The clock must be fresh.
 */
export function oldestAge(cell: Cell): number {
  let age = 0;
  const { queue } = cell.kind;
  const rare = cell.rare;
  if (rare?.running !== undefined) age = queue.ageOf(stampOf(rare.running.meta));
  if (rare?.inflight !== undefined) {
    for (const run of rare.inflight) age = Math.max(age, queue.ageOf(stampOf(run.meta)));
  }
  const signalled = rare?.signals?.oldest?.at;
  if (signalled !== undefined) age = Math.max(age, queue.ageOf(signalled));
  const waiting = cell.oldestMeta();
  return waiting === undefined ? age : Math.max(age, queue.ageOf(stampOf(waiting)));
}

function stampOf(meta: Meta): number {
  return typeof meta === 'number' ? meta : meta.at;
}

/** The actor that comes after one in the tree below `root`, without recursion: trees may be deep. */
export function following(cell: Cell, root: Cell): Cell | undefined {
  const child = cell.children?.first;
  if (child !== undefined) return child;
  for (let at: Cell | undefined = cell; at !== undefined && at !== root; at = at.parent) {
    if (at.after !== undefined) return at.after;
  }
  return undefined;
}
