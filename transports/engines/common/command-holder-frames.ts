/**
 * What the platform and the holder of a command say to each other (command-holder-script.ts), both ways: a letter, the
 * number of bytes that follow (four bytes, the highest first), and those. Numbers in them are decimal text, with spaces
 * between. Output is counted in bytes of both streams together, in the order in which the holder read them.
 *
 * To the holder:
 * - `J` join: output from there on (a number of bytes), how long the command waits without a client, and how long it
 *   may live in any case (ms, or `inf`). Who says it first on its connection takes the command over.
 * - `A` so much of the output is with the client. At most 1 MiB more is read: then the command waits.
 * - `I` input. `E`: there is no more; on a terminal, Ctrl-D is typed.
 * - `S` size of the terminal: columns and rows.
 * - `P` nothing: the platform lives. A holder that hears nothing for 90 s takes it for gone.
 * - `H` hang up: the command ends, and nothing of it is kept.
 * - `V` make place: a holder ends whose command has ended, if nobody is there.
 *
 * From it:
 * - `B` the answer to `J`: where the output begins, how much input came, and how much of that the command took.
 * - `O` output: the number of the stream (a byte), and what was printed there.
 * - `C` how much input came, and how much of that the command took.
 * - `X` the exit code, once all output was sent.
 * - `T` another connection has taken the command over.
 */

/** Largest frame of the holder, and largest it takes. */
const MAX_FRAME_BYTES = 65_536;
const HEAD_BYTES = 5;

/** A frame: its letter, and what it carries. */
export function holderFrame(letter: string, data: Uint8Array | string = ''): Buffer {
  const body = Buffer.from(data);
  const out = Buffer.allocUnsafe(HEAD_BYTES + body.length);
  out.write(letter, 'latin1');
  out.writeUInt32BE(body.length, 1);
  out.set(body, HEAD_BYTES);
  return out;
}

/** The numbers of a frame: whole, and not below 0. Throws RangeError for what is none. */
export function numbersOf(data: Buffer): number[] {
  const numbers = data.toString('latin1').split(' ').map(Number);
  if (!numbers.every(Number.isSafeInteger)) throw new RangeError('a frame of numbers without numbers');
  // On a terminal, a Ctrl-D that is typed is taken off in advance.
  return numbers.map((number) => Math.max(0, number));
}

/** Takes frames out of a stream of bytes, one at a time. */
export class HolderFrames {
  #bytes: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  /** The next frame; undefined while it is not complete. Throws RangeError when the bytes make no sense. */
  next(): { readonly letter: string; readonly data: Buffer } | undefined {
    if (this.#bytes.length < HEAD_BYTES) return undefined;
    const size = this.#bytes.readUInt32BE(1);
    if (size > MAX_FRAME_BYTES) throw new RangeError(`a frame of ${size} bytes`);
    if (this.#bytes.length < HEAD_BYTES + size) return undefined;
    const letter = String.fromCharCode(this.#bytes[0] ?? 0);
    const data = this.#bytes.subarray(HEAD_BYTES, HEAD_BYTES + size);
    this.#bytes = this.#bytes.subarray(HEAD_BYTES + size);
    return { letter, data };
  }
}
