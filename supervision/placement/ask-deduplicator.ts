/** Bounds of what is remembered. */
interface AskDeduplicatorLimits {
  readonly items: number;
  /** Of the answers together. */
  readonly bytes: number;
  readonly ageMs: number;
}

const LIMITS: AskDeduplicatorLimits = { items: 10_000, bytes: 32 << 20, ageMs: 120_000 };

/** Messages overtake each other by less than this, ms. */
const SLACK = 10_000;

/** A shorter list is not worth cleaning up. */
const COMPACT = 1024;

interface AskEntry {
  readonly key: string;
  readonly at: number;
  readonly answer: Promise<Uint8Array>;
  bytes: number;
}

/**
 * The asks this node was asked lately, and their answers, so that one that is sent again is not handled again. Bounded;
 * and it knows what it may have forgotten, so that nothing is handled twice because the table was too small.
 */
export class AskDeduplicator {
  readonly #entries = new Map<string, AskEntry>();
  /**
   * The entries in the order in which they came, from `#first` on, some that were dropped among them. (A map would look
   * for its first entry behind all that it has lost.)
   */
  #order: AskEntry[] = [];
  #first = 0;
  readonly #limits: AskDeduplicatorLimits;
  readonly #now: () => number;
  #bytes = 0;
  /** Asks that came before this may have been forgotten. */
  #horizon = Number.NEGATIVE_INFINITY;

  constructor(now: () => number, limits: Partial<AskDeduplicatorLimits> = {}) {
    this.#now = now;
    this.#limits = { ...LIMITS, ...limits };
  }

  /** The answer, or the promise of it. */
  get(key: string): Promise<Uint8Array> | undefined {
    return this.#entries.get(key)?.answer;
  }

  /** Whether an ask that is not known, and was sent first `ageMs` ago, may have been here all the same. */
  mayHaveForgotten(ageMs: number): boolean {
    return this.#now() - ageMs - SLACK <= this.#horizon;
  }

  /** Remembers an ask. Once the answer is there, `keep` says whether it is worth it: one without effect is not. */
  add(key: string, answer: Promise<Uint8Array>, keep: () => boolean): void {
    const entry: AskEntry = { key, at: this.#now(), answer, bytes: 0 };
    this.#entries.set(key, entry);
    this.#order.push(entry);
    this.#trim();
    void answer.then(({ byteLength }) => {
      if (this.#entries.get(key) !== entry) return;
      if (!keep()) {
        this.#entries.delete(key);
        return;
      }
      entry.bytes = byteLength;
      this.#bytes += byteLength;
      this.#trim();
    });
  }

  get size(): number {
    return this.#entries.size;
  }

  #trim(): void {
    const { items, bytes, ageMs } = this.#limits;
    if (this.#order.length >= COMPACT && this.#order.length >= 2 * this.#entries.size) {
      this.#order = this.#order.filter((entry) => this.#entries.get(entry.key) === entry);
      this.#first = 0;
    }
    for (let entry = this.#order[this.#first]; entry !== undefined; entry = this.#order[this.#first]) {
      const fits = this.#entries.size <= items && this.#bytes <= bytes && this.#now() - entry.at <= ageMs;
      const isKept = this.#entries.get(entry.key) === entry;
      if (fits && isKept) return;
      this.#first += 1;
      if (!isKept) continue;
      this.#entries.delete(entry.key);
      this.#bytes -= entry.bytes;
      this.#horizon = Math.max(this.#horizon, entry.at);
    }
  }
}
