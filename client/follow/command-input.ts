/** The input of a command: what was not taken is kept, so that after a lost connection all of it arrives once. */

/** A frame of the server takes 64 KiB. */
const FRAME_BYTES = 32_768;
/** What may be on its way to the command, bytes. The platform ends a connection with more than 1 MiB. */
const WINDOW_BYTES = 256 * 1024;
const END = '{"type":"eof"}';

export class InputToCommand {
  readonly #send: (frame: Uint8Array | string) => void;
  /** What the platform may not have, from `#from` on, counted from the beginning. */
  #held: Uint8Array[] = [];
  #from = 0;
  #total = 0;
  #sent = 0;
  #written = 0;
  #isOver = false;
  #isEndSent = false;
  /** Whether it may be sent, and must be kept. */
  #way: 'closed' | 'counted' | 'unbounded' = 'closed';

  constructor(send: (frame: Uint8Array | string) => void) {
    this.#send = send;
  }

  /** Bytes that the command has not taken. */
  get waitingBytes(): number {
    return this.#total - this.#written;
  }

  write(bytes: Uint8Array): void {
    if (this.#isOver || bytes.length === 0) return;
    this.#held.push(bytes.slice());
    this.#total += bytes.length;
    this.#pump();
  }

  end(): void {
    this.#isOver = true;
    this.#pump();
  }

  /** The connection is there, and so much of the input is with the platform. */
  joined(received: number, written: number): void {
    this.#way = 'counted';
    this.#sent = received;
    this.#isEndSent = false;
    this.progress(received, written);
  }

  progress(received: number, written: number): void {
    this.#written = Math.max(0, written);
    let first = this.#held[0];
    while (first !== undefined && this.#from + first.length <= received) {
      this.#from += first.length;
      this.#held.shift();
      first = this.#held[0];
    }
    this.#pump();
  }

  /** There is no connection. */
  away(): void {
    this.#way = 'closed';
  }

  /** Nothing has to be kept, and nobody says how much was taken. */
  unbounded(): void {
    this.#way = 'unbounded';
    this.#pump();
  }

  /** The command has ended, or has no result: nobody takes any more. */
  over(): void {
    this.#way = 'closed';
    this.#isOver = true;
    this.#held = [];
    this.#written = this.#total;
  }

  #pump(): void {
    if (this.#way === 'closed') return;
    const most = this.#way === 'counted' ? this.#written + WINDOW_BYTES : this.#total;
    let at = this.#from;
    for (const chunk of this.#held) {
      while (this.#sent < at + chunk.length && this.#sent < most) {
        const begin = this.#sent - at;
        const frame = chunk.subarray(begin, begin + Math.min(FRAME_BYTES, most - this.#sent));
        this.#send(frame);
        this.#sent += frame.length;
      }
      at += chunk.length;
    }
    if (this.#way === 'unbounded') {
      this.#held = [];
      this.#from = this.#total;
      this.#written = this.#total;
    }
    if (!this.#isOver || this.#isEndSent || this.#sent < this.#total) return;
    this.#isEndSent = true;
    this.#send(END);
  }
}
