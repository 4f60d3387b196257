import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { InterruptiblePause } from '../../lib/waiting.ts';
import type { Socket, SocketHandlers, SocketWatch, Watched } from '../../proto/ports/http.ts';
import { Heartbeat } from './heartbeat.ts';

/** How long the peer may take to answer a closing handshake before its connection is cut, in milliseconds. */
const CLOSE_TIMEOUT_MS = 5_000;
const INTERNAL = 1011;
const TOO_SLOW = 1013;
/** How much one batch holds before its sender is told to make a pause. */
const BATCH_BYTES = 64 * 1024;

/**
 * One WebSocket on ws. Its owner hears of the end as soon as either side closes; the library's socket may live on a
 * little to finish the closing handshake.
 */
class NodeSocket implements Socket, Watched {
  readonly #ws: WebSocket;
  readonly #stream: Duplex;
  readonly #handlers: SocketHandlers;
  #watch: SocketWatch | undefined;
  before: Watched | undefined = undefined;
  after: Watched | undefined = undefined;
  readonly #maxBuffered: number;
  #over = false;
  #waiting = false;
  #batching = false;
  place = -1;
  #silent = 0;
  #closeTimer: NodeJS.Timeout | undefined;

  /** `stream` is the connection below `ws`. `gone` is called once the library's socket has ended. */
  constructor(ws: WebSocket, stream: Duplex, handlers: SocketHandlers, maxBuffered: number, gone: () => void) {
    this.#ws = ws;
    this.#stream = stream;
    this.#handlers = handlers;
    this.#maxBuffered = maxBuffered;
    ws.binaryType = 'nodebuffer';
    ws.on('message', (data, isBinary) => this.#received(data, isBinary));
    ws.on('ping', () => this.#heard());
    ws.on('pong', () => this.#heard());
    // A frame that breaks the protocol: the library closes with the right code, and `close` follows.
    ws.on('error', () => undefined);
    ws.on('close', (code, reason) => {
      clearTimeout(this.#closeTimer);
      this.#ended(code, reason.toString());
      gone();
    });
  }

  /** Tells the owner, and who watches, that the socket is open. */
  opened(watch: SocketWatch | undefined): void {
    this.#watch = watch?.opened(this);
    this.#guard(() => this.#handlers.open(this));
  }

  send(data: string | Uint8Array): boolean {
    if (this.#over) return false;
    const size = typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength;
    if (size + this.#ws.bufferedAmount > this.#maxBuffered) {
      this.close(TOO_SLOW, 'too slow');
      return false;
    }
    this.#ws.send(data, { binary: typeof data !== 'string' }, this.#written);
    if (this.#batching) return this.#ws.bufferedAmount < BATCH_BYTES;
    if (this.#ws.bufferedAmount > 0) this.#waiting = true;
    return !this.#waiting;
  }

  batch(work: () => void): boolean {
    if (this.#over) return false;
    this.#stream.cork();
    this.#batching = true;
    try {
      work();
    } finally {
      this.#batching = false;
      this.#stream.uncork();
    }
    if (this.#over) return false;
    if (this.#ws.bufferedAmount > 0) this.#waiting = true;
    return !this.#waiting;
  }

  buffered(): number {
    return this.#over ? 0 : this.#ws.bufferedAmount;
  }

  pause(): void {
    if (!this.#over) this.#ws.pause();
  }

  resume(): void {
    if (!this.#over) this.#ws.resume();
  }

  close(code: number, reason: string): void {
    if (this.#over) return;
    // A paused socket would never read the peer's half of the handshake.
    this.#ws.resume();
    this.#ws.close(code, reason);
    this.#closeTimer = setTimeout(() => this.#ws.terminate(), CLOSE_TIMEOUT_MS);
    this.#ended(code, reason);
  }

  /** Cuts the connection without a handshake. */
  terminate(): void {
    this.#ws.terminate();
  }

  /** A ping period passed: asks the peer for a sign of life, or ends the socket after two periods without one. */
  beat(): void {
    if (this.#over) return;
    if (this.#silent >= 2) {
      this.terminate();
      return;
    }
    this.#silent += 1;
    this.#ws.ping();
  }

  readonly #written = () => {
    if (!this.#waiting || this.#over || this.#ws.bufferedAmount > 0) return;
    this.#waiting = false;
    this.#guard(() => this.#handlers.drain());
  };

  #received(data: WebSocket.RawData, isBinary: boolean): void {
    if (this.#over || !Buffer.isBuffer(data)) return;
    this.#silent = 0;
    const frame = isBinary ? { binary: new Uint8Array(data) } : { text: data.toString() };
    this.#guard(() => this.#handlers.message(frame));
  }

  #heard(): void {
    this.#silent = 0;
  }

  #ended(code: number, reason: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#watch?.closed(this);
    try {
      this.#handlers.close(code, reason);
    } catch {
      // The socket is gone and the owner with it: nobody is left to tell.
    }
  }

  #guard(call: () => void): void {
    try {
      call();
    } catch {
      this.close(INTERNAL, 'internal error');
    }
  }
}

/** The bounds of a server's WebSockets, as in proto/ports/http.ts. */
interface NodeSocketLimits {
  readonly maxMessageBytes: number;
  readonly maxBufferedBytes: number;
  readonly pingMs: number;
}

/** The WebSockets of one server on node:http, from the accepted upgrade to their end. */
export class NodeSockets {
  readonly #limits: NodeSocketLimits;
  readonly #server: WebSocketServer;
  readonly #open: Heartbeat<NodeSocket>;
  readonly #emptied = new InterruptiblePause();

  constructor(limits: NodeSocketLimits) {
    this.#limits = limits;
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      maxPayload: limits.maxMessageBytes,
      perMessageDeflate: false,
    });
    this.#open = new Heartbeat(limits.pingMs);
  }

  /** Answers a checked upgrade with 101, and opens the socket. `head`: bytes that followed the request. */
  accept(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    handlers: SocketHandlers,
    watch: SocketWatch | undefined,
  ): void {
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      const opened = new NodeSocket(ws, socket, handlers, this.#limits.maxBufferedBytes, () => this.#gone(opened));
      this.#open.add(opened);
      opened.opened(watch);
    });
  }

  /** Begins the closing handshake with every open socket. Resolves when all have finished it, or after `waitMs`. */
  closeAll(code: number, reason: string, waitMs: number): Promise<void> {
    for (const socket of this.#open.all()) socket.close(code, reason);
    if (this.#open.size === 0) return Promise.resolve();
    this.#emptied.reset();
    return this.#emptied.wait(waitMs);
  }

  /** Cuts what is still open and stops the timer. */
  stop(): void {
    for (const socket of this.#open.all()) socket.terminate();
    this.#open.stop();
    this.#server.close();
  }

  #gone(socket: NodeSocket): void {
    this.#open.remove(socket);
    if (this.#open.size === 0) this.#emptied.wake();
  }
}
