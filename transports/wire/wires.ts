/** Which kind of wire a connection gets: one on the handle below its socket, or one on the socket itself. */
import type { Socket } from 'node:net';
import { HandleWire } from './handle-wire.ts';
import { handleOf, internals } from './handles.ts';
import { NOBODY, type Wire, type WireReader } from './wire.ts';

let areHandlesUsed = internals !== undefined;

/** `stream`: public interfaces of Node only. `handle`: what is below them, where it is known; the default. */
export function useWires(kind: 'stream' | 'handle'): void {
  areHandlesUsed = kind === 'handle' && internals !== undefined;
}

/** Whether connections made from now on go by handles. */
export function usesHandles(): boolean {
  return areHandlesUsed;
}

/** A wire on a socket that is connected; it is the wire's from here on. Paused. */
export function wireOf(socket: Socket): Wire {
  const handle = areHandlesUsed ? handleOf(socket) : undefined;
  return handle === undefined ? new StreamWire(socket) : new HandleWire(handle, { socket });
}

/** Takes the socket over: it may have been read from before, and what was put back is read first. */
export class StreamWire implements Wire {
  reader: WireReader = NOBODY;
  /** Each read of a stream has memory of its own. */
  readonly hasOwnBuffer = true;
  readonly socket: Socket;

  readonly #onData = (bytes: Buffer) => this.reader.onData(bytes);
  readonly #onEnd = () => this.reader.onEnd();

  constructor(socket: Socket) {
    this.socket = socket;
    socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('drain', () => this.reader.onDrain())
      .on('close', () => this.reader.onClose())
      // Comes as 'close', too.
      .on('error', () => {});
    socket.pause();
  }

  get bytesRead(): number {
    return this.socket.bytesRead;
  }

  get bytesWritten(): number {
    return this.socket.bytesWritten;
  }

  get isWhole(): boolean {
    const { destroyed, readable, writable } = this.socket;
    return !destroyed && readable && writable;
  }

  get isDestroyed(): boolean {
    return this.socket.destroyed;
  }

  get needsDrain(): boolean {
    return this.socket.writableNeedDrain;
  }

  get unsent(): number {
    return this.socket.writableLength;
  }

  write(data: string | Buffer): boolean {
    // A stream may keep what it is given, and a wire's bytes are only lent.
    return typeof data === 'string' ? this.socket.write(data, 'latin1') : this.socket.write(Buffer.from(data));
  }

  writeStable(bytes: Buffer): boolean {
    let waits = false;
    const isRoom = this.socket.write(bytes, () => {
      if (waits) this.reader.onDrain();
    });
    // There may be room for more and these be still in use: no 'drain' tells of that.
    waits = isRoom && this.socket.writableLength > 0;
    return isRoom && !waits;
  }

  takeOwnBuffer(): void {}

  cork(): void {
    this.socket.cork();
  }

  uncork(): void {
    this.socket.uncork();
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  end(): void {
    this.socket.end();
  }

  destroySoon(): void {
    this.socket.destroySoon();
  }

  destroy(): void {
    this.socket.destroy();
  }

  toSocket(): Socket {
    this.reader = NOBODY;
    return this.socket.off('data', this.#onData).off('end', this.#onEnd);
  }
}
