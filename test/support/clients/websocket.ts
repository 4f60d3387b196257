/** A WebSocket client for tests: frames wait in order until the test asks for them. */

import type { IncomingMessage } from 'node:http';
import WebSocket, { type ClientOptions } from 'ws';
import { withTimeout } from '../../../lib/waiting.ts';
import type { SocketFrame } from '../../../proto/ports/http.ts';
import type { Cleanup } from '../temp.ts';

const WAIT_MS = 10_000;
/** Past this many frames nobody asked for, the client stops reading. */
const MAX_QUEUED = 10_000;

/** How a socket ended: code and reason of the closing handshake; 1006 without one. */
export interface SocketEnd {
  readonly code: number;
  readonly reason: string;
}

/** What the server answered instead of 101. */
export class UpgradeRefused extends Error {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  constructor(status: number, headers: IncomingMessage['headers'], body: string) {
    super(`The upgrade was refused with ${status}: ${body}`);
    this.name = 'UpgradeRefused';
    this.status = status;
    this.headers = headers;
    this.body = body;
  }
}

/** An open socket, as a test uses it. */
export interface TestSocket {
  /** The client underneath, for pings, pauses and broken frames. */
  readonly socket: WebSocket;
  /** Resolves once the socket is closed, whoever did it. */
  readonly closed: Promise<SocketEnd>;
  send(data: string | Uint8Array): void;
  /** The next frame; rejects when none comes within `timeoutMs` (default 10 s), and when the socket ends first. */
  next(timeoutMs?: number): Promise<SocketFrame>;
  /** The next frame, which must be text. */
  text(timeoutMs?: number): Promise<string>;
  /** The next frame, which must be text, parsed as JSON. */
  json(timeoutMs?: number): Promise<unknown>;
  /** Takes frames until `accepts` says yes to one, and resolves with that. */
  find(accepts: (frame: SocketFrame) => boolean, timeoutMs?: number): Promise<SocketFrame>;
  /** Frames that nobody took yet. */
  queued(): number;
  /** Starts the closing handshake and resolves when it is done. */
  close(code?: number, reason?: string): Promise<SocketEnd>;
}

/** `protocols`: subprotocols to offer; the rest goes to `ws` as it is. */
export type TestSocketOptions = ClientOptions & { readonly protocols?: string[] };

/**
 * Opens a WebSocket that is cut off when `t` ends. Rejects with UpgradeRefused when the server answers anything but 101,
 * and with the socket's error when it cannot be reached.
 */
export async function websocket(t: Cleanup, url: string, options: TestSocketOptions = {}): Promise<TestSocket> {
  const { protocols = [], ...rest } = options;
  const socket = new WebSocket(url, protocols, rest);
  t.after(() => socket.terminate());
  const frames = new FrameQueue(socket);
  await opened(socket);
  const text = async (timeoutMs?: number) => {
    const frame = await frames.next(timeoutMs);
    if ('text' in frame) return frame.text;
    throw new Error(`expected text, got ${frame.binary.length} bytes`);
  };
  return {
    socket,
    closed: frames.closed,
    send: (data) => socket.send(data),
    next: (timeoutMs) => frames.next(timeoutMs),
    text,
    json: async (timeoutMs) => JSON.parse(await text(timeoutMs)),
    async find(accepts, timeoutMs = WAIT_MS) {
      const deadline = performance.now() + timeoutMs;
      for (;;) {
        const frame = await frames.next(Math.max(1, deadline - performance.now()));
        if (accepts(frame)) return frame;
      }
    },
    queued: () => frames.size,
    close(code, reason) {
      socket.close(code, reason);
      return frames.closed;
    },
  };
}

function opened(socket: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('open', resolve);
    socket.on('error', reject); // Stays: an error after the opening shows as close code 1006.
    socket.once('unexpected-response', (request, response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
      });
      response.on('end', () => {
        request.destroy();
        reject(new UpgradeRefused(response.statusCode ?? 0, response.headers, body));
      });
      response.on('error', reject);
    });
  });
}

class FrameQueue {
  readonly closed: Promise<SocketEnd>;
  readonly #frames: SocketFrame[] = [];
  #end: SocketEnd | undefined;
  /** Called when a frame or the end has come. */
  #wake: () => void = () => {};

  constructor(socket: WebSocket) {
    socket.on('message', (data, isBinary) => {
      const bytes = Array.isArray(data) ? Buffer.concat(data) : data instanceof ArrayBuffer ? Buffer.from(data) : data;
      this.#frames.push(isBinary ? { binary: bytes } : { text: bytes.toString('utf8') });
      if (this.#frames.length >= MAX_QUEUED) socket.pause();
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      socket.on('close', (code, reason) => {
        this.#end = { code, reason: reason.toString('utf8') };
        resolve(this.#end);
        this.#wake();
      });
    });
  }

  get size(): number {
    return this.#frames.length;
  }

  /** One caller at a time. */
  async next(timeoutMs = WAIT_MS): Promise<SocketFrame> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const frame = this.#frames.shift();
      if (frame !== undefined) return frame;
      if (this.#end !== undefined) throw new Error(`closed with ${this.#end.code} ${this.#end.reason}, no frame left`);
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await withTimeout(woken, deadline - performance.now(), () => {
        throw new Error(`no frame within ${timeoutMs} ms`);
      });
    }
  }
}
