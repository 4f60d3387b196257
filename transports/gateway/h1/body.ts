/** The body of a message as its framing cuts it out of the bytes of a connection. */
import { ChunkedReader } from './chunked.ts';
import type { Framing } from './fields.ts';

/** Reads one body. */
export class BodyReader {
  #remaining: number;
  readonly #chunks: ChunkedReader | undefined;

  constructor(framing: Framing) {
    this.#remaining =
      framing.kind === 'length' ? framing.length : framing.kind === 'until_close' ? Number.POSITIVE_INFINITY : 0;
    this.#chunks = framing.kind === 'chunked' ? new ChunkedReader() : undefined;
  }

  /** Whether all of it has been read. */
  get isDone(): boolean {
    return this.#chunks === undefined ? this.#remaining === 0 : this.#chunks.isDone;
  }

  /** Reads from `start`; `onData` gets each run. Returns the index behind what belongs to it. Throws ChunkError. */
  read(bytes: Buffer, start: number, onData: (from: number, to: number) => void): number {
    if (this.#chunks !== undefined) return this.#chunks.read(bytes, start, onData);
    const to = Math.min(bytes.length, start + this.#remaining);
    this.#remaining -= to - start;
    if (to > start) onData(start, to);
    return to;
  }
}
