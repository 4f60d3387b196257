/**
 * What an origin says over a WebSocket, passed on as it is. Its frames are counted on the way (frame-borders.ts), so
 * that its client can be asked to come again between two of them.
 */
import type { Wire } from '../../wire/wire.ts';
import { Direction } from '../tcp/splice.ts';
import { FrameBorders } from './frame-borders.ts';

/** Close with 1012, service restart (RFC 6455, section 7.4): clients come again. */
const COME_AGAIN = Buffer.from([0x88, 2, 1012 >> 8, 1012 & 255]);

export class SocketDirection extends Direction {
  readonly #client: Wire;
  readonly #borders = new FrameBorders();
  #onLeft: (() => void) | undefined;
  #hasLeft = false;

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
   * Asks the client to come again once a frame ends, and calls `onLeft` then: what the client answers is the end for
   * the origin, too. Where the ends of frames are not known, nothing is done.
   */
  leave(onLeft: () => void): void {
    if (this.#onLeft !== undefined) return;
    this.#onLeft = onLeft;
    if (this.#borders.isAtBorder && !this.#borders.hasClosed) this.#leaveHere();
  }

  #leaveHere(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#client.write(COME_AGAIN);
    this.#onLeft?.();
  }
}
