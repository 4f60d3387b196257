import { cellOf } from '../cell/context.ts';
import type { AnyRef } from '../common/ref.ts';
import { withTrace } from '../common/tracing.ts';

/** Runs `f` in the context that came from another node, if the system of `actor` has a tracer. */
export function inTrace<T>(actor: AnyRef, trace: string | undefined, f: () => T): T {
  return trace === undefined || cellOf(actor).kind.tracer === undefined ? f() : withTrace(trace, f);
}
