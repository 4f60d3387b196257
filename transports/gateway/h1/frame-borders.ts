/** Where frames of a WebSocket (RFC 6455, section 5.2) begin in bytes that are passed on. Nothing of them is kept. */

/** The longest head of a frame. */
const MAX_HEAD = 14;
const CLOSE = 8;
/** Many short frames in one read are worth more than an orderly end: past so many they are not followed any more. */
const MAX_FRAMES = 64;

/** Follows one direction from its first byte on. */
export class FrameBorders {
  /** Bytes of the frame's payload that are still to come. */
  #left = 0;
  /** What came of a head that came in parts. */
  #head: Buffer | undefined;
  #had = 0;
  /** A Close was sent: nothing may follow it. */
  hasClosed = false;
  /** Too much came at once: from then on nothing is known, and nothing more is to be taken. */
  isLost = false;

  /** Whether the next byte begins a frame. */
  get isAtBorder(): boolean {
    return this.#left === 0 && this.#had === 0 && !this.isLost;
  }

  /** Takes what comes next. Returns the last place in it where a frame begins, its end included; -1: there is none. */
  take(bytes: Buffer): number {
    const { length } = bytes;
    let at = 0;
    let border = -1;
    if (this.#had > 0) at = this.#takeHead(bytes);
    for (let frames = 0; frames < MAX_FRAMES; frames += 1) {
      const rest = length - at;
      if (this.#left > rest || this.#had > 0) {
        this.#left -= rest;
        return border;
      }
      at += this.#left;
      this.#left = 0;
      border = at;
      if (at === length) return border;
      const size = headSize(bytes, at);
      if (size === undefined || at + size > length) {
        at += this.#takeHead(bytes.subarray(at));
        continue;
      }
      this.#read(bytes, at);
      at += size;
    }
    this.isLost = true;
    return -1;
  }

  /** Takes bytes of a head until it is whole. Returns how many. */
  #takeHead(bytes: Buffer): number {
    this.#head ??= Buffer.alloc(MAX_HEAD);
    for (let at = 0; at < bytes.length; at += 1) {
      this.#head[this.#had] = bytes[at] ?? 0;
      this.#had += 1;
      const size = headSize(this.#head.subarray(0, this.#had), 0);
      if (size !== undefined && this.#had >= size) {
        this.#had = 0;
        this.#read(this.#head, 0);
        return at + 1;
      }
    }
    return bytes.length;
  }

  #read(bytes: Buffer, at: number): void {
    const short = (bytes[at + 1] ?? 0) & 127;
    if (short < 126) this.#left = short;
    else if (short === 126) this.#left = bytes.readUInt16BE(at + 2);
    else this.#left = bytes.readUInt32BE(at + 2) * 2 ** 32 + bytes.readUInt32BE(at + 6);
    if (((bytes[at] ?? 0) & 15) === CLOSE) this.hasClosed = true;
  }
}

/** How long the head at `at` is; undefined: too little of it is there. */
function headSize(bytes: Buffer, at: number): number | undefined {
  if (at + 2 > bytes.length) return undefined;
  const second = bytes[at + 1] ?? 0;
  const short = second & 127;
  return 2 + (short === 127 ? 8 : short === 126 ? 2 : 0) + (second > 127 ? 4 : 0);
}
