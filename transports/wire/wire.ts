/**
 * A connection as the data path uses it: plain calls and one shared read buffer, no streams and no events.
 * `wires.ts` has one on a public socket, `handle-wire.ts` one on the handle below it.
 */

import type { Socket } from 'node:net';

/** Is told what happens on a wire. None of these is called from within a call to it, but `write` may end it. */
export interface WireReader {
  /** Bytes came. They are the reader's during this call only: what is kept must be copied. */
  onData(bytes: Buffer): void;
  /** The peer has sent its last byte (FIN). A reset does not come here, only to `onClose`. */
  onEnd(): void;
  /** All that was written has been taken, after a `write` said false. */
  onDrain(): void;
  /** The connection is over, for whatever reason. Nothing comes after this. */
  onClose(): void;
}

/** One connection. Nothing is read before `resume`. */
export interface Wire {
  /** Told from now on; another may take over at any time. */
  reader: WireReader;
  /** Bytes read and written so far. */
  readonly bytesRead: number;
  readonly bytesWritten: number;
  /** Neither side has ended it, and it is not closed. */
  readonly isWhole: boolean;
  readonly isDestroyed: boolean;
  /** A write said false and `onDrain` has not come yet. */
  readonly needsDrain: boolean;
  /** Bytes that were written and have not left yet. */
  readonly unsent: number;
  /** What `onData` is given stays as it is until the wire reads again, which it does not while it is paused. */
  readonly hasOwnBuffer: boolean;
  /** Sends text as latin1, or bytes, the caller's again when this returns. False asks to wait for `onDrain`. */
  write(data: string | Buffer): boolean;
  /** Sends bytes that stay as they are until `onDrain`, so that they need not be copied. */
  writeStable(bytes: Buffer): boolean;
  /** What is written until `uncork` leaves together. May be nested. */
  cork(): void;
  uncork(): void;
  /** Asks for a large buffer of its own, for much that is only passed on. There may be none. */
  takeOwnBuffer(): void;
  pause(): void;
  resume(): void;
  /** FIN after all that was written. The connection closes when the peer has ended, too. */
  end(): void;
  /** FIN after all that was written, and then closes. */
  destroySoon(): void;
  /** Closes now. */
  destroy(): void;
  /** The connection as a paused socket; the wire can only be destroyed from then on. Nothing may be unsent. */
  toSocket(): Socket;
}

/** Hears nothing: for a wire between two readers, whose connection may still end. */
export const NOBODY: WireReader = { onData: () => {}, onEnd: () => {}, onDrain: () => {}, onClose: () => {} };
