/**
 * A body that is waited for before its origin is asked: whoever never sends it takes no place there. Only its beginning
 * is held, and only for as long as a head may take; a longer body goes on from there as it comes.
 */

import { BodyReader, ChunkError } from '../../wire/h1/body.ts';
import type { Framing } from '../../wire/h1/fields.ts';

/** As much is held, bytes. */
const HELD_BYTES = 16_384;

/** Sees the bytes of one body as they come; they are kept elsewhere. */
export class HeldBody {
  readonly #reader: BodyReader;
  readonly #begin: () => void;
  #bytes = 0;
  #isBroken = false;

  /** `begin`: asks the origin. */
  constructor(framing: Framing, begin: () => void) {
    this.#reader = new BodyReader(framing);
    this.#begin = begin;
  }

  /** Bytes came, of the body or of what is behind it. */
  see(bytes: Buffer): void {
    if (this.isEnough) return;
    this.#bytes += bytes.length;
    try {
      this.#reader.read(bytes, 0, () => {});
    } catch (error) {
      if (!(error instanceof ChunkError)) throw error;
      // Whoever reads it for the origin refuses it.
      this.#isBroken = true;
    }
  }

  /** Whether all of it is there, or as much as is held. */
  get isEnough(): boolean {
    return this.#isBroken || this.#reader.isDone || this.#bytes >= HELD_BYTES;
  }

  begin(): void {
    this.#begin();
  }
}
