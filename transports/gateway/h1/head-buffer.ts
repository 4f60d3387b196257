/** Collects the bytes of a head until its empty line, however they are cut. */

const CR = 0x0d;
const LF = 0x0a;

/** The end of a head was found: its text (latin1, with the empty line) and where the rest of the chunk begins. */
interface HeadFound {
  readonly text: string;
  readonly next: number;
}

/**
 * Bytes of one head. `push` gives the head once it is complete, undefined while it is not, `too_large` past the limit,
 * and `broken` as soon as a line ends in anything but CRLF: such a head need not be waited for.
 */
export class HeadBuffer {
  readonly #max: number;
  #held: Buffer | undefined;
  #length = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Whether nothing of a head has come. */
  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** Takes `chunk` from `start` on. What must be kept of it is copied. */
  push(chunk: Buffer, start = 0): HeadFound | 'too_large' | 'broken' | undefined {
    if (this.#length === 0) {
      // No more than a head may have is looked at.
      const end = endOfHead(chunk, Math.min(chunk.length, start + this.#max), start, start);
      if (end === -2) return 'broken';
      if (end === -1) return this.#keep(chunk, start, chunk.length);
      return { text: chunk.toString('latin1', start, end), next: end };
    }
    const before = this.#length;
    const to = Math.min(chunk.length, start + this.#max - before);
    const kept = this.#keep(chunk, start, to);
    const held = this.#held;
    if (kept !== undefined || held === undefined) return kept;
    const end = endOfHead(held, this.#length, 0, Math.max(0, before - 3));
    if (end === -2) return 'broken';
    if (end === -1) return to < chunk.length ? 'too_large' : undefined;
    this.#length = 0;
    this.#held = undefined;
    return { text: held.toString('latin1', 0, end), next: start + end - before };
  }

  /** Copies part of `chunk` behind what is held. Room doubles: a head of single bytes is not copied for each. */
  #keep(chunk: Buffer, from: number, to: number): 'too_large' | undefined {
    const length = this.#length + to - from;
    if (length > this.#max) return 'too_large';
    if (this.#held === undefined || this.#held.length < length) {
      const larger = Buffer.allocUnsafe(Math.min(this.#max, Math.max(256, 2 * length)));
      this.#held?.copy(larger, 0, 0, this.#length);
      this.#held = larger;
    }
    chunk.copy(this.#held, this.#length, from, to);
    this.#length = length;
    return undefined;
  }
}

/**
 * Index after the empty line that ends the head which begins at `start`, looking from `from` on; -1 when it has not
 * come within `length`, -2 when a line ends in a bare LF.
 */
function endOfHead(bytes: Buffer, length: number, start: number, from: number): number {
  let lf = bytes.indexOf(LF, from);
  while (lf !== -1 && lf < length) {
    if (lf === start || bytes[lf - 1] !== CR) return -2;
    // An empty line: the one before ended here, or the head is nothing but this.
    if (lf - 1 === start || (lf - 3 >= start && bytes[lf - 2] === LF)) return lf + 1;
    lf = bytes.indexOf(LF, lf + 1);
  }
  return -1;
}
