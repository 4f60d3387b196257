/**
 * Which request work belongs to. A context is the text of a W3C `traceparent` (https://www.w3.org/TR/trace-context/).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Log } from '../../proto/ports/log.ts';

/** What a span is about. */
export interface SpanSubject {
  /** `ask`: from the asking to its end. `handler`: from the call of a handler to the end of its promise. */
  readonly operation: 'ask' | 'handler';
  /** Of the actor that is asked, or handles. */
  readonly kind: string;
  /** Type of the message, as `SystemOptions.messageType` names it. */
  readonly message: string;
  readonly path: string;
}

/** Something that takes time, begun and not yet over. */
export interface Span {
  /** The context of what happens within it. */
  readonly traceparent: string;
  /** Called once; `error`: why it failed. */
  end(error?: unknown): void;
}

/** Takes spans to where people look at them. */
export interface Tracer {
  /** Begins one within the context `parent`; undefined: this is not recorded, and its context is that of `parent`. */
  startSpan(subject: SpanSubject, parent: string): Span | undefined;
}

/** Of the code that runs, across its awaits. Nobody pays for it before the first `withTrace`. */
const running = new AsyncLocalStorage<string | undefined>();

/** The context of the code that runs; undefined outside of any. */
export function currentTrace(): string | undefined {
  return running.getStore();
}

/** Runs `f`, with all that it awaits, in a context; undefined: in none. */
export function withTrace<T>(traceparent: string | undefined, f: () => T): T {
  return traceparent === currentTrace() ? f() : running.run(traceparent, f);
}

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Whether a value from outside is a context. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && TRACEPARENT.test(value);
}

/** The trace of a context: the same for all that one request brings about. */
function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35);
}

/** A log whose lines say to which trace they belong. */
export function tracedLog(log: Log): Log {
  const level =
    (name: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: object, message: string): void => {
      const trace = currentTrace();
      log[name](trace === undefined ? fields : { trace_id: traceIdOf(trace), ...fields }, message);
    };
  return {
    debug: level('debug'),
    info: level('info'),
    warn: level('warn'),
    error: level('error'),
    child: (fields) => tracedLog(log.child(fields)),
  };
}

/** A tracer whose failure is nobody's crash. */
export function safeTracer(tracer: Tracer): Tracer {
  return {
    startSpan(subject, parent) {
      try {
        const span = tracer.startSpan(subject, parent);
        return span === undefined
          ? undefined
          : { traceparent: span.traceparent, end: (error) => endSafely(span, error) };
      } catch {
        return undefined;
      }
    },
  };
}

function endSafely(span: Span, error: unknown): void {
  try {
    span.end(error);
  } catch {
    // What is not recorded is missing, no more.
  }
}
