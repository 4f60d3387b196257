import { cellOf } from '../cell/context.ts';
import type { SystemRef } from '../common/ref.ts';

/** How often each latency was seen: by bucket of LATENCY_BOUNDS_MS, the last one for what is above all bounds. */
interface LatencyCounts {
  readonly counts: readonly number[];
  readonly sumMs: number;
}

/** The latencies of one type of message at one kind of actor, of the messages that were looked at. */
export interface LatencyNumbers {
  readonly kind: string;
  /** As `SystemOptions.messageType` names it; `other` for all beyond 32 of a kind, or 200 in all. */
  readonly type: string;
  /** From the sending to the handler, in whole ms. */
  readonly queue: LatencyCounts;
  /** From the call of the handler to its end, or to that of its promise. */
  readonly handler: LatencyCounts;
}

/**
 * The latencies of a system, live. Of each kind of actor the first message in a millisecond is looked at, and one in
 * 509: the counts are those of a sample.
 */
export function latencies(system: SystemRef): readonly LatencyNumbers[] {
  return cellOf(system).kind.system.latencies.all;
}
