/** Remembers what short texts mean that come again and again: names, hosts, status lines. */

/** Longer texts are read each time. */
const MAX_LENGTH = 128;

/** A pure function of text with a bounded memory: when it is full, it forgets everything. */
export class ParseCache<V> {
  readonly #max: number;
  readonly #read: (text: string) => V;
  readonly #known = new Map<string, V>();

  /** `read`: what a text means; undefined is not remembered. */
  constructor(max: number, read: (text: string) => V) {
    this.#max = max;
    this.#read = read;
  }

  get(text: string): V {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const meaning = this.#read(text);
    if (meaning === undefined || text.length > MAX_LENGTH) return meaning;
    if (this.#known.size >= this.#max) this.#known.clear();
    // A copy: what came may be a slice that keeps a whole head in memory.
    this.#known.set(Buffer.from(text, 'latin1').toString('latin1'), meaning);
    return meaning;
  }
}
