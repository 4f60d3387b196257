import assert from 'node:assert/strict';
import type { Span, SpanSubject, Tracer } from '../../../supervision/index.ts';

interface KeptSpan extends SpanSubject {
  readonly id: string;
  readonly parent: string;
  ended: boolean;
  error?: unknown;
}

/** Keeps the spans that it is told of. */
export class KeepingTracer implements Tracer {
  readonly spans: KeptSpan[] = [];

  startSpan(subject: SpanSubject, parent: string): Span {
    const id = (this.spans.length + 2).toString(16).padStart(16, '0');
    const span: KeptSpan = { ...subject, id, parent: parent.slice(36, 52), ended: false };
    this.spans.push(span);
    const end = (error?: unknown): void => {
      assert.equal(span.ended, false, 'a span ends once');
      span.ended = true;
      span.error = error;
    };
    return { traceparent: `${parent.slice(0, 36)}${id}-01`, end };
  }
}
