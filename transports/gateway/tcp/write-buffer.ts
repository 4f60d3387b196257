/** Memory where the pieces of one write are put together. */

/** More than one read brings, with a head before it. */
const STAGE_BYTES = 98_304;
/** A write that waits and is smaller keeps its own part of the stage; a larger one keeps all of it. */
const SMALL_BYTES = 16_384;

/** One block of memory: first what belongs to writes that wait, then what is put together now. */
export class WriteBuffer {
  readonly #memory = Buffer.allocUnsafeSlow(STAGE_BYTES);
  #start = 0;
  #end = 0;

  /** Copies text (as latin1) or bytes from `at` on, as far as there is room; where the rest begins. */
  put(data: string | Buffer, at: number): number {
    const next = Math.min(data.length, at + STAGE_BYTES - this.#end);
    if (typeof data !== 'string') data.copy(this.#memory, this.#end, at, next);
    else this.#memory.write(at === 0 ? data : data.slice(at), this.#end, next - at, 'latin1');
    this.#end += next - at;
    return next;
  }

  /** What has been put together. */
  view(): Buffer {
    return this.#memory.subarray(this.#start, this.#end);
  }

  /** It has been sent, or is not wanted any more. */
  clear(): void {
    this.#end = this.#start;
  }

  /** What has been put together stays in use. The stage for what comes next: this or another. */
  lend(): WriteBuffer {
    this.#start = this.#end;
    const hasRoom = this.#end <= STAGE_BYTES - 65_536 - SMALL_BYTES;
    return hasRoom ? this : new WriteBuffer();
  }
}
