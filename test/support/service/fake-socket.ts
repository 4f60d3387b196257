/** The server's end of a WebSocket, as a transport hands it to a service, with the peer played by the test. */
import assert from 'node:assert/strict';
import type { Socket, SocketHandlers, SocketWatch, Watched } from '../../../proto/ports/http.ts';
import { until } from '../until.ts';

export class FakeSocket implements Socket, Watched {
  before: Watched | undefined = undefined;
  after: Watched | undefined = undefined;
  /** Text frames sent to the peer. */
  readonly texts: string[] = [];
  /** Binary frames sent to the peer, as latin1. */
  readonly bytes: string[] = [];
  paused = false;
  /** While true, `send` says that bytes wait. */
  full = false;
  closed: { readonly code: number; readonly reason: string } | undefined;
  readonly #handlers: SocketHandlers;

  constructor(handlers: SocketHandlers) {
    this.#handlers = handlers;
  }

  #watch: SocketWatch | undefined;

  /** The peer is there. */
  static open(handlers: SocketHandlers, watch?: SocketWatch): FakeSocket {
    const socket = new FakeSocket(handlers);
    socket.#watch = watch?.opened(socket);
    handlers.open(socket);
    return socket;
  }

  send(data: string | Uint8Array): boolean {
    if (this.closed !== undefined) return true;
    if (typeof data === 'string') this.texts.push(data);
    else this.bytes.push(Buffer.from(data).toString('latin1'));
    return !this.full;
  }

  batch(work: () => void): boolean {
    work();
    return this.closed === undefined && !this.full;
  }

  buffered(): number {
    return this.full ? 1 : 0;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  close(code: number, reason: string): void {
    assert.ok(Buffer.byteLength(reason) <= 123, 'a reason that fits into a close frame');
    this.#end(code, reason);
  }

  /** The peer sends a frame. Nothing arrives after the end. */
  type(data: string | Uint8Array): void {
    if (this.closed !== undefined) return;
    this.#handlers.message(typeof data === 'string' ? { text: data } : { binary: data });
  }

  /** The peer read what waited. */
  drain(): void {
    this.full = false;
    this.#handlers.drain();
  }

  /** The peer leaves; 1006 is a lost connection. */
  leave(code = 1001): void {
    this.#end(code, '');
  }

  /** The JSON messages so far. */
  get events(): unknown[] {
    return this.texts.map((text): unknown => JSON.parse(text));
  }

  /** Waits for the end. */
  async end(): Promise<{ readonly code: number; readonly reason: string }> {
    return until(() => this.closed, { what: 'the socket is closed' });
  }

  #end(code: number, reason: string): void {
    if (this.closed !== undefined) return;
    this.closed = { code, reason };
    this.#watch?.closed(this);
    this.#handlers.close(code, reason);
  }
}
