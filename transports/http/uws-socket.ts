import type { WebSocket } from 'uWebSockets.js';
import { randomBytes, randomUUID } from 'node:crypto';
import { type Socket as Connection, connect } from 'node:net';
import { waitAtMost } from '../../lib/waiting.ts';
import type { Socket, SocketHandlers, SocketWatch, Watched } from '../../proto/ports/http.ts';

/** What the library keeps with each of its sockets. */
export interface UwsLink {
  readonly socket: UwsSocket;
}

const INTERNAL = 1011;
const TOO_SLOW = 1013;
/** Nothing is ever published to it. */
const TOPIC = 'callback';
const text = new TextDecoder();

// How a socket is: ping periods in which the peer was not heard, and whether bytes wait for it.
const SILENT_TWICE = 2;
const SILENT = 3;
const WAITING = 4;

/** What is to be done in the callback that a socket brings about, before `inCallback` returns: never a second. */
let work: (() => void) | undefined;

/** One WebSocket on uWebSockets.js. The library's own socket throws once it is closed, so it is let go of first. */
export class UwsSocket implements Socket, Watched {
  #ws: WebSocket<UwsLink> | undefined;
  readonly #handlers: SocketHandlers;
  readonly #maxBuffered: number;
  #flags = 0;
  place = -1;
  #watch: SocketWatch | undefined;
  before: Watched | undefined = undefined;
  after: Watched | undefined = undefined;

  constructor(handlers: SocketHandlers, maxBuffered: number, watch?: SocketWatch) {
    this.#handlers = handlers;
    this.#maxBuffered = maxBuffered;
    this.#watch = watch;
  }

  send(data: string | Uint8Array): boolean {
    const ws = this.#ws;
    if (ws === undefined) return false;
    // A string has at most three bytes a character: only the rare one that may not fit is measured.
    if (this.#isWaiting || data.length * 3 > this.#maxBuffered) {
      const size = typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength;
      if (size + ws.getBufferedAmount() > this.#maxBuffered) {
        this.close(TOO_SLOW, 'too slow');
        return false;
      }
    }
    const result = ws.send(data, typeof data !== 'string');
    if (result === 1) return true;
    if (result === 2) this.close(TOO_SLOW, 'too slow');
    else this.#flags |= WAITING;
    return false;
  }

  batch(work: () => void): boolean {
    const ws = this.#ws;
    if (ws === undefined) return false;
    // An exception that leaves a callback of the library ends the process.
    let failure: { readonly error: unknown } | undefined;
    ws.cork(() => {
      try {
        work();
      } catch (error) {
        failure = { error };
      }
    });
    if (failure !== undefined) throw failure.error;
    // What was corked is written only now: nobody was told yet that some of it waits.
    if (this.#ws !== undefined && ws.getBufferedAmount() > 0) this.#flags |= WAITING;
    return this.#ws !== undefined && !this.#isWaiting;
  }

  buffered(): number {
    return this.#ws?.getBufferedAmount() ?? 0;
  }

  /** The library cannot stop reading one WebSocket: frames are delivered on. */
  pause(): void {}

  resume(): void {}

  close(code: number, reason: string): void {
    // The library calls back before `end` returns, which is where the owner hears of it.
    this.#ws?.end(code, reason);
  }

  /**
   * Runs `wanted` inside a callback of the library, at once: that of a subscription, which touches nothing but the
   * library's list of topics. False when there is no such socket any more.
   */
  inCallback(wanted: () => void): boolean {
    if (this.#ws === undefined) return false;
    work = wanted;
    this.#ws.subscribe(TOPIC);
    this.#ws.unsubscribe(TOPIC);
    const isDone = work === undefined;
    work = undefined;
    return isDone;
  }

  /** The callback that `inCallback` brings about. */
  subscribed(): void {
    const wanted = work;
    work = undefined;
    wanted?.();
  }

  /** Cuts the connection without a handshake. */
  terminate(): void {
    this.#ws?.close();
  }

  /** The library opened its socket. */
  opened(ws: WebSocket<UwsLink>): void {
    this.#ws = ws;
    this.#guard(() => {
      this.#watch = this.#watch?.opened(this);
      this.#handlers.open(this);
    });
  }

  /** `data` is the library's memory and is copied before the owner sees it. */
  received(data: ArrayBuffer, isBinary: boolean): void {
    this.heard();
    const frame = isBinary ? { binary: new Uint8Array(data.slice(0)) } : { text: text.decode(data) };
    this.#guard(() => this.#handlers.message(frame));
  }

  /** The library wrote some of what waited. */
  drained(): void {
    if (!this.#isWaiting || this.#ws === undefined || this.#ws.getBufferedAmount() > 0) return;
    this.#flags &= ~WAITING;
    this.#guard(() => this.#handlers.drain());
  }

  /** The library closed its socket, whoever began it. */
  closed(code: number, reason: ArrayBuffer): void {
    this.#ws = undefined;
    this.#watch?.closed(this);
    try {
      this.#handlers.close(code, text.decode(reason));
    } catch {
      // The socket is gone and the owner with it: nobody is left to tell.
    }
  }

  /** A ping period passed: asks the peer for a sign of life, or ends the socket after two periods without one. */
  beat(): void {
    if ((this.#flags & SILENT) >= SILENT_TWICE) {
      this.terminate();
      return;
    }
    this.#flags += 1;
    this.#ws?.ping();
  }

  /** The peer gave a sign of life. */
  heard(): void {
    this.#flags &= ~SILENT;
  }

  get #isWaiting(): boolean {
    return (this.#flags & WAITING) !== 0;
  }

  /** An exception that leaves a callback of the library ends the process, so the one socket ends instead. */
  #guard(call: () => void): void {
    try {
      call();
    } catch {
      this.close(INTERNAL, 'internal error');
    }
  }
}

/** How long it may take to come, ms: a client waits for it. */
const COMING_MS = 1000;
/** The header that proves it: its value is known to this process alone. */
export const RESIDENT_HEADER = 'x-resident';

const silent: SocketHandlers = { open: () => {}, message: () => {}, drain: () => {}, close: () => {} };

/**
 * A WebSocket from this process to its own server, made when a callback of the library is wanted and nobody is
 * connected. The library ends it when it was silent for long; the next time it is made anew. Nothing is sent over it.
 */
export class Resident {
  readonly secret: string = randomUUID();
  #server: UwsSocket | undefined;
  #accepted: UwsSocket | undefined;
  #client: Connection | undefined;
  #coming: Promise<void> | undefined;
  #arrived: (() => void) | undefined;

  /** The server's end, while it is open. */
  get socket(): UwsSocket | undefined {
    return this.#server;
  }

  /** Resolves once it is there, or cannot come. `host` and `port` are those the server listens on. */
  come(host: string, port: number): Promise<void> {
    this.#coming ??= this.#connect(host, port).finally(() => {
      this.#coming = undefined;
    });
    return this.#coming;
  }

  /** What the library keeps for its upgrade. */
  accept(): UwsSocket {
    const socket = new UwsSocket(
      {
        ...silent,
        open: () => {
          this.#server = socket;
          // Not in this callback: the library is still reading the request, and would take any other upgrade for this
          // one's.
          if (this.#arrived !== undefined) setImmediate(this.#arrived);
        },
        close: () => {
          if (this.#server === socket) this.#server = undefined;
        },
      },
      0,
    );
    this.#accepted = socket;
    return socket;
  }

  /** Whether that is its server's end, open or about to be. */
  owns(socket: UwsSocket): boolean {
    return this.#accepted === socket;
  }

  end(): void {
    this.#client?.destroy();
  }

  async #connect(host: string, port: number): Promise<void> {
    this.end();
    const arrived = new Promise<void>((resolve) => {
      this.#arrived = resolve;
      const client = connect({ host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port });
      this.#client = client;
      // It must not keep the process alive, and what comes is not looked at.
      client.unref().resume();
      client.on('error', () => resolve()).on('close', () => resolve());
      const key = randomBytes(16).toString('base64');
      client.write(
        `GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: ` +
          `13\r\n` +
          `sec-websocket-key: ${key}\r\n${RESIDENT_HEADER}: ${this.secret}\r\n\r\n`,
      );
    });
    await waitAtMost(arrived, COMING_MS);
    this.#arrived = undefined;
  }
}
