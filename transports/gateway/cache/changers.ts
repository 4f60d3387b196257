/**
 * When clients last changed something at an origin: whoever did is not shown what was asked for before. RFC 9111,
 * section 4.4, has a change evict its own address alone, and a page that lists what was changed has another one.
 */
import { counterOf } from './hash.ts';

/** Clients and origins that share a place are asked anew more often, and shown nothing else. */
const PLACES = 16_384;

/** A client at an origin. */
interface ClientAt {
  readonly origin: string;
  readonly address: string;
}

/** The changes of one process. Times are of one monotonic clock, ms. */
export class Changers {
  readonly #times = new Float64Array(PLACES).fill(Number.NEGATIVE_INFINITY);

  /** A client changes something, or may have done so just now. */
  note({ origin, address }: ClientAt, now: number): void {
    this.#times[counterOf(origin, address, PLACES)] = now;
  }

  /** When it did so last; -Infinity: never. */
  changedAt({ origin, address }: ClientAt): number {
    return this.#times[counterOf(origin, address, PLACES)] ?? Number.NEGATIVE_INFINITY;
  }
}
