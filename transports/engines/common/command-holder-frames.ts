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

import type { Writable } from 'node:stream';
import { FRAME_HEAD_BYTES, holderFrame } from '../../../lib/holder-script.ts';
import { FRAME_COST_BYTES } from '../../../proto/ports/kept-command.ts';

/** Largest frame of the holder, and largest it takes. */
const MAX_FRAME_BYTES = 65_536;

/** The numbers of a frame: whole, and not below 0. Throws RangeError for what is none. */
export function numbersOf(data: Buffer): number[] {
  const numbers = data.toString('latin1').split(' ').map(Number);
  if (!numbers.every(Number.isSafeInteger)) throw new RangeError('a frame of numbers without numbers');
  // On a terminal, a Ctrl-D that is typed is taken off in advance.
  return numbers.map((number) => Math.max(0, number));
}

/**
 * Takes frames out of a stream of bytes, one at a time. A frame that comes in many pieces is gathered in a buffer that
 * grows with what came: its bytes are copied a few times, not once for each piece.
 */
export class HolderFrames {
  #bytes: Buffer = Buffer.alloc(0);
  /** What of `#bytes` was not taken yet. */
  #from = 0;
  #to = 0;
  /** Whether there may be room behind `#to`, which is ours. */
  #isOurs = false;

  push(chunk: Buffer): void {
    const held = this.#to - this.#from;
    if (held === 0) {
      [this.#bytes, this.#from, this.#to, this.#isOurs] = [chunk, 0, chunk.length, false];
      return;
    }
    if (!this.#isOurs || this.#to + chunk.length > this.#bytes.length) {
      // What was given out before stays as it is.
      const larger = Buffer.allocUnsafe(2 * (held + chunk.length));
      this.#bytes.copy(larger, 0, this.#from, this.#to);
      [this.#bytes, this.#from, this.#to, this.#isOurs] = [larger, 0, held, true];
    }
    this.#to += chunk.copy(this.#bytes, this.#to);
  }

  /** The next frame; undefined while it is not complete. Throws RangeError when the bytes make no sense. */
  next(): { readonly letter: string; readonly data: Buffer } | undefined {
    const held = this.#to - this.#from;
    if (held < FRAME_HEAD_BYTES) return undefined;
    const size = this.#bytes.readUInt32BE(this.#from + 1);
    if (size > MAX_FRAME_BYTES) throw new RangeError(`a frame of ${size} bytes`);
    if (held < FRAME_HEAD_BYTES + size) return undefined;
    const letter = String.fromCharCode(this.#bytes[this.#from] ?? 0);
    const begin = this.#from + FRAME_HEAD_BYTES;
    this.#from = begin + size;
    return { letter, data: this.#bytes.subarray(begin, this.#from) };
  }
}

/** Letters of frames of which only the newest counts. */
const NEWEST: ReadonlySet<string> = new Set(['A', 'S', 'P']);

/**
 * Frames on their way to a holder. They wait here, and not in the stream: of some only the newest is kept, and what the
 * rest takes is known (`cost`), for who reads them is in a container and may read nothing.
 */
export class OutgoingFrames {
  readonly #to: Writable;
  readonly #onLess: () => void;
  #waiting: Buffer[] = [];
  /** Where those of which only the newest counts wait. */
  readonly #newest = new Map<string, number>();
  #cost = 0;
  #isWriting = false;

  /** `onLess`: some of what waited has left. */
  constructor(to: Writable, onLess: () => void) {
    this.#to = to;
    this.#onLess = onLess;
  }

  /** What has not left takes so many bytes. */
  get cost(): number {
    return this.#cost;
  }

  say(letter: string, data: Uint8Array | string = ''): void {
    if (!this.#to.writable) return;
    const frame = holderFrame(letter, data);
    const older = this.#newest.get(letter);
    if (older !== undefined) {
      // A few digits in the place of a few digits: it costs the same.
      this.#waiting[older] = frame;
      return;
    }
    if (NEWEST.has(letter)) this.#newest.set(letter, this.#waiting.length);
    this.#waiting.push(frame);
    this.#cost += FRAME_COST_BYTES + frame.length;
    this.#leave();
  }

  /** Writes all that waits, once what was written before is on its way. */
  #leave(): void {
    if (this.#isWriting || this.#waiting.length === 0 || !this.#to.writable) return;
    this.#isWriting = true;
    const cost = this.#cost;
    const bytes = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#newest.clear();
    this.#to.write(bytes, (error) => {
      this.#isWriting = false;
      if (error) return;
      this.#cost -= cost;
      this.#onLess();
      this.#leave();
    });
  }
}
