/**
 * Ships spans to a collector: OTLP over HTTP, in JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp). They wait
 * in a bounded queue: while the collector is away the oldest are dropped and counted, and nobody waits.
 */
import { ShippingQueue } from './shipping-queue.ts';

/** One that is over. */
export interface FinishedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined for the first of its trace. */
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  /** Since the epoch, ms, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string>>;
  /** What failed, as a code or the name of an error: never its text, which may hold what a user wrote. */
  readonly error: string | undefined;
}

interface SpanShipperOptions {
  /** Base URL of the collector; spans go to `/v1/traces` below it. */
  readonly endpoint: string;
  /** `service.name` and `service.instance.id`. */
  readonly source: string;
  readonly instance: string;
  /** Most spans that wait. Default 4,096. */
  readonly capacity?: number;
  /** Pause after the collector did not take a batch, ms. Default 5,000. */
  readonly retryMs?: number;
}

const GATHER_MS = 500;
const ANSWER_MS = 5000;
const KINDS = { internal: 1, server: 2, client: 3 };

/** Takes spans. Connects when there is something to send. */
export class SpanShipper extends ShippingQueue<FinishedSpan> {
  constructor({ endpoint, source, instance, capacity = 4096, retryMs = 5000 }: SpanShipperOptions) {
    const url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
    const resource = { attributes: attributesOf({ 'service.name': source, 'service.instance.id': instance }) };
    const send = async (batch: readonly FinishedSpan[]): Promise<boolean> => {
      const scopeSpans = [{ scope: { name: 'troupe' }, spans: batch.map(spanOf) }];
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans }] }),
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      await response.arrayBuffer();
      return response.ok;
    };
    super({ capacity, retryMs, gatherMs: GATHER_MS, send });
  }
}

function spanOf({ traceId, spanId, parentSpanId, name, kind, startMs, endMs, attributes, error }: FinishedSpan) {
  return {
    traceId,
    spanId,
    parentSpanId,
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanos(startMs),
    endTimeUnixNano: nanos(endMs),
    attributes: attributesOf(attributes),
    status: error === undefined ? {} : { code: 2, message: error },
  };
}

function attributesOf(attributes: Readonly<Record<string, string>>) {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: { stringValue: value } }));
}

/** As text: a number has too few digits. */
function nanos(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}
