/** A barrier before an origin that must not be written to at times. Whoever reads there needs no barrier. */
import type { UpstreamAddress } from './traffic.ts';

/** Told once when the request that was let in is over, however it ended. */
export type LeaveBarrier = () => void;

/** Lets requests in that write. */
export interface WriteBarrier {
  /** The origin behind it. */
  readonly address: UpstreamAddress;
  /** Lets one in: now, or once the barrier is open again. Undefined: it stayed closed for too long. */
  enter(): LeaveBarrier | Promise<LeaveBarrier | undefined>;
}
