/** The newest bytes of a stream, for somebody who comes back. */
export class TerminalReplay {
  readonly #size: number;
  #ring: Buffer | undefined;
  /** Bytes that went through so far. */
  #total = 0;

  /** Keeps `size` bytes; takes the memory when there is something to keep. */
  constructor(size: number) {
    this.#size = size;
  }

  /** Copies what it keeps. */
  push(data: Uint8Array): void {
    this.#ring ??= Buffer.allocUnsafe(this.#size);
    const kept = data.length > this.#size ? data.subarray(data.length - this.#size) : data;
    const at = (this.#total + data.length - kept.length) % this.#size;
    const first = Math.min(kept.length, this.#size - at);
    this.#ring.set(kept.subarray(0, first), at);
    this.#ring.set(kept.subarray(first), 0);
    this.#total += data.length;
  }

  /** What it keeps, oldest first, from the beginning of a UTF-8 character on. */
  contents(): Buffer {
    if (this.#ring === undefined) return Buffer.alloc(0);
    if (this.#total <= this.#size) return Buffer.from(this.#ring.subarray(0, this.#total));
    const at = this.#total % this.#size;
    const whole = Buffer.concat([this.#ring.subarray(at), this.#ring.subarray(0, at)]);
    let start = 0;
    while (start < 3 && ((whole[start] ?? 0) & 0xc0) === 0x80) start++;
    return whole.subarray(start);
  }
}
