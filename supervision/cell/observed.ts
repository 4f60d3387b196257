/**
 * Handlers that are looked at, for the numbers: of each kind of actor one message a millisecond. That is nearly all of
 * them when few come, and few when many do.
 */
import type { SystemClock } from '../environment.ts';
import type { Span } from '../tracing.ts';
import type { Latency } from './latency.ts';

/** One handler, from before its call until its promise has settled. */
export class Observed {
  private readonly start: number;
  private readonly clock: SystemClock;
  private readonly latency: Latency;
  private readonly queueMs: number;
  private readonly span: Span | undefined;
  private isPending = false;
  private error: unknown = undefined;

  constructor(latency: Latency, clock: SystemClock, queueMs: number, span: Span | undefined) {
    this.clock = clock;
    this.start = clock.now();
    this.latency = latency;
    this.queueMs = queueMs;
    this.span = span;
  }

  /** The handler gave a promise. */
  pend(): this {
    this.isPending = true;
    return this;
  }

  /** The handler's call threw. */
  threw(error: unknown): void {
    this.error = error;
  }

  /** The handler's call is over. */
  returned(): void {
    if (!this.isPending) this.end(this.error);
  }

  /** The handler is over. */
  end(error?: unknown): void {
    this.span?.end(error);
    this.latency.queue.add(this.queueMs);
    this.latency.handler.add(this.clock.now() - this.start);
  }
}

/** The observed handler that is on the stack. */
export const onStack: { handler: Observed | undefined } = { handler: undefined };

/** Whoever looks at the handler that just gave a promise: it ends with that. */
export function observer(): Observed | undefined {
  return onStack.handler?.pend();
}
