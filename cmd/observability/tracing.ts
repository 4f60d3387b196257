/** Spans of requests and of the actors that they reach, shipped to a collector. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Registry } from 'prom-client';
import { isTraceparent, type Span, type SpanSubject, type Tracer, withTrace } from '../../supervision/index.ts';
import type { RequestTrace } from '../../transports/api/api.ts';
import { type FinishedSpan, SpanShipper } from '../../transports/clients/otlp/spans.ts';
import type { Environment } from '../config/config.ts';
import { readNumbers } from './metrics.ts';

interface TracingOptions {
  readonly endpoint: string;
  /** Of the requests without a context, one in so many begins a trace; 0: none. */
  readonly every: number;
  readonly source: string;
  readonly retryMs?: number;
}

/** The tracing of a process; undefined when there is no collector. */
export function openTracing(
  environment: Pick<Environment, 'OTEL_EXPORTER_OTLP_ENDPOINT' | 'TRACE_EVERY'>,
  source: string,
): Tracing | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, TRACE_EVERY: every } = environment;
  return endpoint === undefined ? undefined : new Tracing({ endpoint, every, source });
}

const GRACE_MS = 2000;

export class Tracing implements Tracer {
  readonly #shipper: SpanShipper;
  readonly #every: number;
  #requests = 0;

  constructor({ endpoint, every, source, retryMs }: TracingOptions) {
    const instance = `${hostname()}:${process.pid}`;
    this.#shipper = new SpanShipper({ endpoint, source, instance, ...(retryMs === undefined ? {} : { retryMs }) });
    this.#every = every;
  }

  startSpan({ operation, kind, message, path }: SpanSubject, parent: string): Span | undefined {
    if (!isSampled(parent)) return undefined;
    const attributes = { 'actor.kind': kind, 'actor.message': message, 'actor.path': path };
    return this.#begin(
      `${operation} ${kind} ${message}`,
      operation === 'ask' ? 'client' : 'internal',
      attributes,
      parent,
    );
  }

  /** Makes what traces the requests to a service. A context that a request brings decides about itself. */
  requests(service: string): RequestTrace {
    return (endpoint, traceparent, run) => {
      const given = isTraceparent(traceparent) ? traceparent : undefined;
      if (given === undefined ? !this.#isTurn() : !isSampled(given)) return run();
      const span = this.#begin(`http ${endpoint}`, 'server', { service, endpoint }, given);
      return withTrace(span.traceparent, run).then((answer) => {
        span.end(answer.status >= 500 ? { code: String(answer.status) } : undefined);
        return answer;
      });
    };
  }

  metrics(registry: Registry): void {
    const number = readNumbers(registry, 'troupe_spans');
    number('shipped_total', 'Spans that the collector took', () => this.#shipper.shipped);
    number('dropped_total', 'Spans that were not shipped', () => this.#shipper.dropped);
    number('waiting', 'Spans that wait to be shipped', () => this.#shipper.waiting);
  }

  /** Sends what waits. Never rejects. */
  close(): Promise<void> {
    return this.#shipper.close(GRACE_MS);
  }

  #isTurn(): boolean {
    if (this.#every === 0) return false;
    this.#requests = (this.#requests + 1) % this.#every;
    return this.#requests === 0;
  }

  #begin(name: string, kind: FinishedSpan['kind'], attributes: FinishedSpan['attributes'], parent?: string): Span {
    const traceId = parent?.slice(3, 35) ?? randomBytes(16).toString('hex');
    const spanId = randomBytes(8).toString('hex');
    const startMs = now();
    return {
      traceparent: `00-${traceId}-${spanId}-01`,
      end: (error) => {
        const failed = error === undefined ? undefined : nameOf(error);
        const parentSpanId = parent?.slice(36, 52);
        this.#shipper.add({
          traceId,
          spanId,
          parentSpanId,
          name,
          kind,
          startMs,
          endMs: now(),
          attributes,
          error: failed,
        });
      },
    };
  }
}

function isSampled(traceparent: string): boolean {
  return (Number.parseInt(traceparent.slice(53), 16) & 1) === 1;
}

function now(): number {
  return performance.timeOrigin + performance.now();
}

/** Its code, or else its class: the text of an error may hold what a user wrote. */
function nameOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return 'error';
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error instanceof Error ? error.name : 'error';
}
