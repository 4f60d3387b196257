/**
 * What an origin says over a WebSocket, passed on as it is. Its frames are counted on the way (frame-borders.ts), so
 * that it can be closed between two of them.
 */
import type { Wire } from '../../wire/wire.ts';
import { Direction } from '../tcp/splice.ts';
import { FrameBorders } from './frame-borders.ts';

/** Why a WebSocket is closed (RFC 6455, section 7.4): clients come again after the first. */
const SERVICE_RESTART = 1012;
export const POLICY_VIOLATION = 1008;

export class SocketDirection extends Direction {
  readonly #client: Wire;
  readonly #borders = new FrameBorders();
  #onLeft: (() => void) | undefined;
  #hasLeft = false;
  #code = SERVICE_RESTART;

  constructor(origin: Wire, client: Wire, moved: () => void, closed: () => void) {
    super(origin, client, moved, closed);
    this.#client = client;
  }

  /** Counts what the client was sent before. */
  begin(bytes: Buffer): void {
    this.#borders.take(bytes);
  }

  override onData(bytes: Buffer): void {
    // The client has been told that nothing comes any more.
    if (this.#hasLeft) return;
    const border = this.#borders.isLost ? -1 : this.#borders.take(bytes);
    const isHere = this.#onLeft !== undefined && border >= 0 && !this.#borders.hasClosed;
    if (!isHere) super.onData(bytes);
    else {
      if (border > 0) super.onData(bytes.subarray(0, border));
      this.#leaveHere();
    }
  }

  /**
   * Closes with `code` once a frame ends, and calls `onLeft` then: what the client answers is the end for the origin,
   * too. Where the ends of frames are not known, nothing is done.
   */
  leave(onLeft: () => void, code = SERVICE_RESTART): void {
    if (this.#onLeft !== undefined) return;
    this.#onLeft = onLeft;
    this.#code = code;
    if (this.#borders.isAtBorder && !this.#borders.hasClosed) this.#leaveHere();
  }

  #leaveHere(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#client.write(Buffer.from([0x88, 2, this.#code >> 8, this.#code & 255]));
    this.#onLeft?.();
  }
}
