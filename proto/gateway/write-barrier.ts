/** A barrier before an origin that must not be written to at times. Whoever reads there needs no barrier. */
import type { ProxyRequest, UpstreamAddress } from './traffic.ts';

/** Told once when the request that was let in is over, however it ended. */
export type LeaveBarrier = () => void;

/** What is to be known of a request that writes, to say whether there is room for it. */
interface BarrierRequest extends Pick<ProxyRequest, 'method' | 'field'> {
  /** Path and query as the origin gets them. */
  readonly target: string;
}

/** There is room. */
export interface WriteAdmission {
  /** Told the size of each part of the body before it goes on. A sentence ends the request, and says why. */
  readonly onBody?: ((bytes: number) => string | undefined) | undefined;
  readonly onOver?: LeaveBarrier | undefined;
  /** Told once when it goes on what refuses the rest of it, with a sentence. */
  readonly onBegin?: ((refuse: (why: string) => void) => void) | undefined;
  /** Whose token came along; undefined: one of nobody who may write. */
  readonly owner?: string | undefined;
  readonly repository?: string | undefined;
}

/** A request that is to be let in. */
export interface EnteringWrite extends Pick<WriteAdmission, 'owner' | 'repository'> {
  /** Ends it when it was let in: it is to be repeated, as the sentence says. Again does nothing. */
  readonly end?: ((later: string) => void) | undefined;
}

/** It is refused for now: the sentence says why. */
interface WriteLater {
  readonly later: string;
}

/** Lets requests in that write. */
export interface WriteBarrier {
  /** The origin behind it. */
  readonly address: UpstreamAddress;
  /** Lets one in: now, or once the barrier is open again. Undefined: that takes too long, or too many wait. */
  enter(write?: EnteringWrite): LeaveBarrier | Promise<LeaveBarrier | undefined>;
  /**
   * Asked before: whether there is room for what it writes, or the sentence that refuses it. Rejects when that cannot
   * be told. Without it there is always room.
   */
  readonly admit?: ((request: BarrierRequest) => Promise<WriteAdmission | WriteLater | string>) | undefined;
}
