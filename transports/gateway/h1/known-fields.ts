/**
 * Blocks of header fields that came before. A client that keeps its connection sends the same fields with request after
 * request, so what they mean is read once, and later found by comparing the text, which costs a tenth.
 */

/** Places; a block has one. */
const SLOTS = 256;
/** Longer blocks are read each time: all that are kept take half a megabyte of text. */
const MAX_LENGTH = 2048;
/** Characters by which the place of a block is chosen. */
const SAMPLES = 16;

interface FieldsEntry<T> {
  readonly block: string;
  readonly meaning: T;
}

/** Remembers what blocks mean, in bounded memory: another block may take the place of one. */
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
    if (text.length - at > MAX_LENGTH) return;
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
