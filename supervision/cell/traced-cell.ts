import type { Ref } from '../ref.ts';
import { currentTrace, type Span, type Tracer } from '../tracing.ts';
import { Ask, givenUp } from './asks.ts';
import { Cell } from './cell.ts';
import { messageType } from './handlers.ts';
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

/** An ask that belongs to a trace. */
class TracedAsk extends Ask {
  context: string | undefined;

  override get trace(): string | undefined {
    return this.context;
  }
}

interface TraceOptions {
  readonly tracer: Tracer;
  readonly parent: string;
  /** Ends the ask when it is aborted. */
  readonly signal: AbortSignal | undefined;
}

/** Makes and sends an ask within the trace `parent`, as a span of its own. */
export function askTraced<Msg, Reply>(
  cell: Cell,
  make: (replyTo: Ref<Reply>) => Msg,
  timeoutMs: number,
  { tracer, parent, signal }: TraceOptions,
): Promise<Reply> {
  if (signal?.aborted) return Promise.reject(givenUp(cell.path, signal));
  const { kind, path } = cell;
  let span: Span | undefined;
  let made: Ask | undefined;
  const asked = new Promise<Reply>((resolve, reject) => {
    const ask = new TracedAsk(cell, kind.system, timeoutMs, resolve, reject);
    made = ask;
    try {
      const msg = make(ask);
      span = tracer.startSpan({ operation: 'ask', kind: kind.kind, message: messageType(cell, msg), path }, parent);
      ask.context = span?.traceparent ?? parent;
      cell.post(msg, ask);
    } catch (error) {
      ask.drop();
      reject(error);
    }
  });
  if (signal !== undefined) made?.cancelWith(signal, asked);
  asked.then(
    () => span?.end(),
    (error: unknown) => span?.end(error),
  );
  return asked;
}
