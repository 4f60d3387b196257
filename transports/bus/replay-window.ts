/** Which numbers of a sender were seen: a bitmap that moves with the newest (RFC 4303, 3.4.3), unshifted (RFC 6479). */

const WORDS = 256;
const BITS = 32 * WORDS;
/** A number so far behind the newest is refused: nobody knows any more whether it was seen. */
export const REPLAY_WINDOW = BITS - 32;

export class ReplayWindow {
  readonly #words = new Uint32Array(WORDS);
  #newest = 0;

  /** Whether `number` (from 1) is new; it is not from here on. */
  accept(number: number): boolean {
    if (number + REPLAY_WINDOW <= this.#newest) return false;
    const word = Math.floor(number / 32);
    if (number > this.#newest) {
      const last = Math.floor(this.#newest / 32);
      if (word - last >= WORDS) this.#words.fill(0);
      else for (let next = last + 1; next <= word; next++) this.#words[next % WORDS] = 0;
      this.#newest = number;
    }
    const at = word % WORDS;
    const bit = 1 << (number % 32);
    const seen = this.#words[at] ?? 0;
    this.#words[at] = seen | bit;
    return (seen & bit) === 0;
  }
}
