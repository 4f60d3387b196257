import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { waitAtMost } from '../../lib/waiting.ts';
import type { SocketHandlers, SocketWatch } from '../../proto/ports/http.ts';
import { Heartbeat } from './heartbeat.ts';
import { NodeSocket } from './node-socket.ts';

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
  #emptied: (() => void) | undefined;

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
    const emptied = new Promise<void>((resolve) => {
      this.#emptied = resolve;
    });
    return waitAtMost(emptied, waitMs);
  }

  /** Cuts what is still open and stops the timer. */
  stop(): void {
    for (const socket of this.#open.all()) socket.terminate();
    this.#open.stop();
    this.#server.close();
  }

  #gone(socket: NodeSocket): void {
    this.#open.remove(socket);
    if (this.#open.size === 0) this.#emptied?.();
  }
}
