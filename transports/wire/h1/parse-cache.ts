/**
 * Remembers what texts mean that come again and again: short ones (names, hosts, status lines), and the header fields
 * of clients that send the same with request after request. Comparing the text costs a tenth of reading it.
 */

/** Longer texts are read each time. */
const MAX_TEXT = 128;

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
    if (meaning === undefined || text.length > MAX_TEXT) return meaning;
    if (this.#known.size >= this.#max) this.#known.clear();
    // A copy: what came may be a slice that keeps a whole head in memory.
    this.#known.set(Buffer.from(text, 'latin1').toString('latin1'), meaning);
    return meaning;
  }
}

/** Places; a block of header fields has one. */
const SLOTS = 256;
/** Longer blocks are read each time: all that are kept take half a megabyte of text. */
const MAX_BLOCK = 2048;
/** Characters by which the place of a block is chosen. */
const SAMPLES = 16;

interface FieldsEntry<T> {
  readonly block: string;
  readonly meaning: T;
}

/** Remembers what blocks of fields mean, in bounded memory: another block may take the place of one. */
export class KnownFields<T> {
  readonly #entries: (FieldsEntry<T> | undefined)[] = Array.from({ length: SLOTS }, () => undefined);
  /** What was seen last at each place: one that comes only once pushes nobody out. */
  readonly #seen = new Int32Array(SLOTS);

  /** What the block that `text` has from `at` on means, if it is known. */
  find(text: string, at: number): T | undefined {
    const entry = this.#entries[hashOf(text, at) & (SLOTS - 1)];
    if (entry === undefined || entry.block.length !== text.length - at) return undefined;
    return text.slice(at) === entry.block ? entry.meaning : undefined;
  }

  /** The block was read, and is sound. `read` reads it once more, from a text of its own; called if it came before. */
  saw(text: string, at: number, read: (block: string) => T | undefined): void {
    if (text.length - at > MAX_BLOCK) return;
    const hash = hashOf(text, at);
    const slot = hash & (SLOTS - 1);
    if (this.#seen[slot] !== hash) {
      this.#seen[slot] = hash;
      return;
    }
    // A copy: a slice would keep the whole head.
    const block = Buffer.from(text.slice(at), 'latin1').toString('latin1');
    const meaning = read(block);
    if (meaning !== undefined) this.#entries[slot] = { block, meaning };
  }
}

/** Of the length and some characters: two that differ elsewhere share a place, no more. */
function hashOf(text: string, at: number): number {
  const length = text.length - at;
  const step = Math.max(1, Math.floor(length / SAMPLES));
  let hash = length;
  for (let next = at + (step >> 1); next < text.length; next += step)
    hash = (Math.imul(hash, 31) + text.charCodeAt(next)) | 0;
  return hash ^ (hash >>> 15);
}
