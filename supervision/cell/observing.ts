import { type Tracer, withTrace } from '../tracing.ts';
import type { Cell } from './cell.ts';
import { BLOCKED, RUNNING, WAITING } from './flags.ts';
import { messageType } from './handlers.ts';
import { taken } from './inbox.ts';
import { Observed, onStack } from './observed.ts';

/** Handles up to `limit` messages as `Cell.handle` does, and looks at one of them; with a tracer at each. */
export function handleObserved(cell: Cell, limit: number): number {
  const { kind } = cell;
  if (kind.tracer !== undefined) return handleTraced(cell, kind.tracer, limit);
  const { queue } = kind;
  const before = cell.depth > limit ? passedOver(queue.ms, limit) : 0;
  let n = before > 0 ? cell.handle(before) : 0;
  if (n < before || !goesOn(cell)) return n;
  kind.sampledAt = queue.ms;
  n += handleOne(cell);
  return n < limit && goesOn(cell) ? n + cell.handle(limit - n) : n;
}

/** In a flood messages that come in turns have their share: every other time it is not the first that is looked at. */
function passedOver(ms: number, limit: number): number {
  return ms % 2 === 0 ? 0 : (ms >> 1) % limit;
}

function handleTraced(cell: Cell, tracer: Tracer, limit: number): number {
  let n = 0;
  while (n < limit && goesOn(cell)) n += handleOne(cell, tracer);
  return n;
}

/** Whether the next message may be handled at once. */
function goesOn({ flags }: Cell): boolean {
  return (flags & RUNNING) !== 0 && (flags & BLOCKED) === 0 && (flags & WAITING) !== 0;
}

function handleOne(cell: Cell, tracer?: Tracer): number {
  const msg = cell.peek();
  const { meta } = taken;
  // One that is over is not handled.
  if (typeof meta !== 'number' && !meta.open) return cell.handle(1);
  const { kind } = cell;
  const { queue } = kind;
  const message = messageType(cell, msg);
  const latency = kind.system.latencies.of(kind.kind, message);
  const trace = typeof meta === 'number' ? undefined : meta.trace;
  const subject = () => ({ operation: 'handler', kind: kind.kind, message, path: cell.path }) as const;
  const span = trace === undefined ? undefined : tracer?.startSpan(subject(), trace);
  const handler = new Observed(latency, queue.clock, queue.ageOf(typeof meta === 'number' ? meta : meta.at), span);
  onStack.handler = handler;
  try {
    // Also without a trace: whoever scheduled this run may have one.
    return tracer === undefined ? cell.handle(1) : withTrace(span?.traceparent ?? trace, () => cell.handle(1));
  } finally {
    onStack.handler = undefined;
    handler.returned();
  }
}
