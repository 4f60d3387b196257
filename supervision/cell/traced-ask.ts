import type { Ref } from '../common/ref.ts';
import type { Span, Tracer } from '../common/tracing.ts';
import { Ask, givenUp } from './asks.ts';
import type { Cell } from './cell.ts';
import { messageType } from './handlers.ts';

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
