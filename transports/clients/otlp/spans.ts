/**
 * Ships spans to a collector: OTLP over HTTP, in JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp). They wait
 * in a bounded queue: while the collector is away the oldest are dropped and counted, and nobody waits.
 */
import { waitAtMost } from '../../../lib/waiting.ts';

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

const BATCH = 512;
/** Spans of one moment leave together. */
const GATHER_MS = 500;
const ANSWER_MS = 5000;
const KINDS = { internal: 1, server: 2, client: 3 };

/** Takes spans. Connects when there is something to send. */
export class SpanShipper {
  shipped = 0;
  dropped = 0;
  readonly #url: string;
  readonly #resource: object;
  readonly #capacity: number;
  readonly #retryMs: number;
  readonly #queue: FinishedSpan[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #isClosed = false;

  constructor({ endpoint, source, instance, capacity = 4096, retryMs = 5000 }: SpanShipperOptions) {
    this.#url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
    this.#resource = { attributes: attributesOf({ 'service.name': source, 'service.instance.id': instance }) };
    this.#capacity = capacity;
    this.#retryMs = retryMs;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  add(span: FinishedSpan): void {
    if (this.#isClosed) return;
    this.#queue.push(span);
    this.#trim();
    this.#later(GATHER_MS);
  }

  /** Sends what waits, for at most `graceMs`; the rest counts as dropped. */
  async close(graceMs: number): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await waitAtMost(
      this.#sending === undefined ? this.#sendAll() : this.#sending.then(() => this.#sendAll()),
      graceMs,
    );
    this.dropped += this.#queue.splice(0).length;
  }

  #trim(): void {
    const excess = this.#queue.length - this.#capacity;
    if (excess > 0) this.dropped += this.#queue.splice(0, excess).length;
  }

  #later(ms: number): void {
    if (this.#timer !== undefined || this.#sending !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#sending = this.#sendAll().then((isTaken) => {
        this.#sending = undefined;
        if (this.#queue.length > 0) this.#later(isTaken ? GATHER_MS : this.#retryMs);
      });
    }, ms).unref();
  }

  /** False when the collector did not take them. Never rejects. */
  async #sendAll(): Promise<boolean> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, BATCH);
      if (await this.#send(batch)) this.shipped += batch.length;
      else {
        this.#queue.unshift(...batch);
        this.#trim();
        return false;
      }
    }
    return true;
  }

  async #send(batch: readonly FinishedSpan[]): Promise<boolean> {
    const scopeSpans = [{ scope: { name: 'troupe' }, spans: batch.map(spanOf) }];
    const body = JSON.stringify({ resourceSpans: [{ resource: this.#resource, scopeSpans }] });
    const headers = { 'content-type': 'application/json' };
    try {
      const signal = AbortSignal.timeout(ANSWER_MS);
      const response = await fetch(this.#url, { method: 'POST', headers, body, signal });
      await response.arrayBuffer();
      return response.ok;
    } catch {
      return false;
    }
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
