import { currentTrace } from '../common/tracing.ts';
import { Cell } from './cell.ts';
import { TracedTell } from './traced-tell.ts';

/** An actor of a system with a tracer. Apart, so that the others pay nothing for it with each message. */
export class TracedCell extends Cell {
  override deliver(msg: unknown): void {
    const { queue } = this.kind;
    queue.wake();
    const trace = currentTrace();
    this.post(msg, trace === undefined ? queue.ms : new TracedTell(queue.ms, trace));
  }
}
