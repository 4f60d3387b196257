import { Ask } from './asks.ts';
import type { Cell } from './cell.ts';
import type { AsyncRun } from './cell-parts.ts';
import { ageOf } from './run-queue.ts';

/** A handler that is pending: the type of its message, and for how many ms it has been running. */
export interface HandlerNow {
  readonly message: string;
  readonly ms: number;
}

const MAX_TYPE = 64;

/**
 * The type of a message for people: what the system's `messageType` says, else its text `type`, else its class. Never
 * more of a message, which may hold secrets. Never throws.
 */
function messageType(cell: Cell, msg: unknown): string {
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
  return run.init ? 'initial state' : messageType(cell, run.msg);
}

/** The handler that has been pending for longest; undefined when none is. The clock must be fresh. */
export function handlerNow(cell: Cell): HandlerNow | undefined {
  const { rare } = cell;
  if (rare === undefined) return undefined;
  let oldest = rare.running;
  for (const run of rare.inflight ?? [])
    if (oldest === undefined || ageOf(run.since) > ageOf(oldest.since)) oldest = run;
  return oldest === undefined ? undefined : { message: typeOfRun(cell, oldest), ms: ageOf(oldest.since) };
}
