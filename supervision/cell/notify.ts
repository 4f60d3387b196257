import type { Cell } from './cell.ts';
import { CLOSED, NOT_AT_ONCE, QUEUED, SIGNALS } from './flags.ts';
import { refuse } from './refusals.ts';
import { SignalQueue } from './signals.ts';

/** Gives an actor a signal: full as its mailbox may be, and to be handled before what is in it. */
export function notify(cell: Cell, msg: unknown): void {
  const { queue } = cell.kind;
  queue.wake();
  const { flags } = cell;
  if ((flags & CLOSED) !== 0) {
    refuse(cell, msg, queue.ms);
    return;
  }
  const { parts } = cell;
  if (parts.signals === undefined) parts.signals = new SignalQueue();
  parts.signals.push(msg, queue.ms);
  cell.flags = flags | SIGNALS;
  if ((flags & NOT_AT_ONCE) !== 0) return;
  cell.flags |= QUEUED;
  queue.enqueue(cell);
}
