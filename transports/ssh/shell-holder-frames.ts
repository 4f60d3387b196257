/**
 * What the platform and the holder of a shell say to each other (shell-holder-script.ts), both ways: a letter, the
 * number of bytes that follow (four bytes, the highest first), and those. Numbers in them are written alike.
 *
 * To the holder:
 * - `L` look: a client is there from now on, and is shown what was printed last. How long the shell waits without one,
 *   and how long it may live in any case (ms, four bytes each). Who says it first on its connection takes the shell
 *   over.
 * - `W` wait: the client is away.
 * - `I` input. Of it at most INPUT_BYTES may be unconfirmed.
 * - `K` so many bytes more of the output are with the client (four bytes). At most OUTPUT_BYTES may be unconfirmed.
 * - `S` size: columns and rows, two bytes each.
 * - `P` nothing: the platform lives. A holder that hears nothing for 90 s takes it for gone.
 * - `H` hang up.
 *
 * From it:
 * - `R` the answer to `L`: what was printed last begins here. A client was sent so many bytes of it before (four bytes;
 *   holders of an earlier version do not say it, or say all of it).
 * - `O` output.
 * - `C` so many bytes more of the input were taken (four bytes).
 * - `X` the shell has ended: exit status and number of the signal, a byte each.
 * - `T` another connection has taken the shell over.
 */

import { FRAME_HEAD_BYTES, holderFrame } from '../../lib/holder-script.ts';

/** Input that the holder keeps for a shell that does not read. */
export const INPUT_BYTES = 64 * 1024;
/** Most output that was sent and not confirmed. */
export const OUTPUT_BYTES = 256 * 1024;
/** Largest frame either side sends. */
const MAX_FRAME_BYTES = 256 * 1024;
const OUTPUT = 'O'.charCodeAt(0);
/** `L` for a shell that lives as long as it likes. */
const FOR_EVER = 0xffff_ffff;

/** `L`; `lifeMs` may be infinite. */
export function lookFrame(lingerMs: number, lifeMs: number): Buffer {
  const data = Buffer.alloc(8);
  data.writeUInt32BE(inRange(lingerMs), 0);
  data.writeUInt32BE(lifeMs >= FOR_EVER ? FOR_EVER : inRange(lifeMs), 4);
  return holderFrame('L', data);
}

/** `K`. */
export function seenFrame(bytes: number): Buffer {
  const data = Buffer.alloc(4);
  data.writeUInt32BE(bytes);
  return holderFrame('K', data);
}

/** `S`. */
export function sizeFrame(cols: number, rows: number): Buffer {
  const data = Buffer.alloc(4);
  data.writeUInt16BE(cols, 0);
  data.writeUInt16BE(rows, 2);
  return holderFrame('S', data);
}

function inRange(ms: number): number {
  return Math.max(0, Math.min(FOR_EVER - 1, Math.trunc(ms)));
}

/** Takes frames out of a stream of bytes. Output is handed on as it comes, in as many pieces as that is. */
export class HolderFrameReader {
  readonly #onFrame: (letter: string, data: Buffer) => void;
  #rest: Buffer | undefined;
  /** Bytes of output that are still to come of the frame under way. */
  #left = 0;

  constructor(onFrame: (letter: string, data: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Hands on all that is complete now. Returns false when the bytes make no sense. */
  push(chunk: Buffer): boolean {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#rest = undefined;
    let at = this.#output(bytes, 0);
    while (bytes.length - at >= FRAME_HEAD_BYTES) {
      const size = bytes.readUInt32BE(at + 1);
      if (size > MAX_FRAME_BYTES) return false;
      if (bytes[at] === OUTPUT) {
        this.#left = size;
        at = this.#output(bytes, at + FRAME_HEAD_BYTES);
        continue;
      }
      const end = at + FRAME_HEAD_BYTES + size;
      if (end > bytes.length) break;
      this.#onFrame(String.fromCharCode(bytes[at] ?? 0), bytes.subarray(at + FRAME_HEAD_BYTES, end));
      at = end;
    }
    if (at < bytes.length) this.#rest = bytes.subarray(at);
    return true;
  }

  /** Hands on what is output from there; where that ends. */
  #output(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left);
    if (end > at) this.#onFrame('O', bytes.subarray(at, end));
    this.#left -= end - at;
    return end;
  }
}
