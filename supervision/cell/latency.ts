/** How long messages wait and are handled, counted by kind of actor and type of message. */

/** Upper bounds of the buckets, ms; what is above the last one is in one more. */
export const LATENCY_BOUNDS_MS: readonly number[] = [1, 5, 25, 100, 500, 2500, 10_000];

/** Counts by bucket, not cumulative. */
class Histogram {
  readonly counts: number[] = new Array<number>(LATENCY_BOUNDS_MS.length + 1).fill(0);
  sumMs = 0;

  add(ms: number): void {
    let at = 0;
    while (at < LATENCY_BOUNDS_MS.length && ms > (LATENCY_BOUNDS_MS[at] ?? 0)) at++;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.sumMs += ms;
  }
}

/** The latencies of one type of message at one kind of actor. */
export class Latency {
  readonly kind: string;
  readonly type: string;
  readonly queue = new Histogram();
  readonly handler = new Histogram();

  constructor(kind: string, type: string) {
    this.kind = kind;
    this.type = type;
  }
}

/** Types come from code. Should one come from input all the same, it fills neither memory nor a page of numbers. */
const MAX_TYPES = 32;
const MAX_PAIRS = 200;
const OTHER = 'other';

/** The latencies of one system. Beyond their bounds all types are one. */
export class Latencies {
  readonly all: Latency[] = [];
  private readonly kinds = new Map<string, Map<string, Latency>>();

  /** Where to count, made at the first message of its type. */
  of(kind: string, type: string): Latency {
    let types = this.kinds.get(kind);
    if (types === undefined) {
      // `all` then has at most one more of each kind, and as kinds are no input, too, there are few of them.
      types = new Map();
      this.kinds.set(kind, types);
    }
    const known = types.get(type);
    if (known !== undefined) return known;
    const isFull = types.size >= MAX_TYPES || this.all.length >= MAX_PAIRS;
    if (isFull && type !== OTHER) return this.of(kind, OTHER);
    const latency = new Latency(kind, type);
    types.set(type, latency);
    this.all.push(latency);
    return latency;
  }
}
