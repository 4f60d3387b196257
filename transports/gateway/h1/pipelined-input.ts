/** Bytes of a client that came before they could be used: bounded, so that what is beyond stays in the kernel. */

/** Most bytes of later requests kept while one is answered. */
const MAX_AHEAD = 65_536;

/**
 * A queue of bytes, in the order in which they came. One read may exceed the bound; `isFull` says when to read no more.
 */
export class PipelinedInput {
  /** Made when it is needed: most connections never do. */
  #chunks: Buffer[] | undefined;
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#chunks === undefined || this.#chunks.length === 0;
  }

  get isFull(): boolean {
    return this.#bytes >= MAX_AHEAD;
  }

  /** Keeps a copy of `chunk` from `from` on: the bytes are lent. */
  keep(chunk: Buffer, from: number): void {
    if (from === chunk.length) return;
    this.#chunks ??= [];
    this.#chunks.push(Buffer.from(chunk.subarray(from)));
    this.#bytes += chunk.length - from;
  }

  /** All of them, which stay. */
  get chunks(): readonly Buffer[] {
    return this.#chunks ?? [];
  }

  /** The first of them. */
  shift(): Buffer | undefined {
    const chunk = this.#chunks?.shift();
    this.#bytes -= chunk?.length ?? 0;
    return chunk;
  }

  /** Puts the rest of what `shift` gave back in its place. */
  unshift(chunk: Buffer): void {
    this.#chunks ??= [];
    this.#chunks.unshift(chunk);
    this.#bytes += chunk.length;
  }

  /** All of them; none are left. */
  takeAll(): Buffer[] {
    const chunks = this.#chunks ?? [];
    this.clear();
    return chunks;
  }

  clear(): void {
    this.#chunks = undefined;
    this.#bytes = 0;
  }
}
