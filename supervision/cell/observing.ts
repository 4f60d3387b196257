import type { Cell } from './cell.ts';
import { BLOCKED, RUNNING, WAITING } from './flags.ts';
import { messageType } from './handlers.ts';
import { taken } from './inbox.ts';
import { Observed, onStack, SAMPLED } from './observed.ts';

/** Handles up to `limit` messages as `Cell.handle` does, and looks at the one whose turn it is. */
export function handleObserved(cell: Cell, limit: number): number {
  const { kind } = cell;
  const { queue } = kind;
  const before = kind.sampledAt === queue.ms ? kind.unsampled - 1 : 0;
  let n = before > 0 ? cell.handle(before) : 0;
  if (n < before || !goesOn(cell)) return n;
  n += handleOne(cell);
  kind.sampledAt = queue.ms;
  // The caller takes off all that were handled.
  kind.unsampled = SAMPLED + n;
  return n < limit && goesOn(cell) ? n + cell.handle(limit - n) : n;
}

/** Whether the next message may be handled at once. */
function goesOn({ flags }: Cell): boolean {
  return (flags & RUNNING) !== 0 && (flags & BLOCKED) === 0 && (flags & WAITING) !== 0;
}

function handleOne(cell: Cell): number {
  const msg = cell.peek();
  const { meta } = taken;
  // One that is over is not handled.
  if (typeof meta !== 'number' && !meta.open) return cell.handle(1);
  const { kind } = cell;
  const { queue } = kind;
  const latency = kind.system.latencies.of(kind.kind, messageType(cell, msg));
  const handler = new Observed(latency, queue.clock, queue.ageOf(typeof meta === 'number' ? meta : meta.at));
  onStack.handler = handler;
  try {
    return cell.handle(1);
  } finally {
    onStack.handler = undefined;
    handler.returned();
  }
}
