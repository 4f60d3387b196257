/** Troupe's own server: the strict reader that the gateway has, too, with WebSockets, on handles where known. */
import { createServer, type Server } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { plainAddress } from '../../lib/ip-address.ts';
import { InterruptiblePause } from '../../lib/waiting.ts';
import type { HttpServer, HttpServerOptions, SocketHandlers } from '../../proto/ports/http.ts';
import { Deadlines } from '../wire/deadlines.ts';
import { HandleWire } from '../wire/handle-wire.ts';
import { takeHandles } from '../wire/handles.ts';
import type { Wire } from '../wire/wire.ts';
import { usesHandles, wireOf } from '../wire/wires.ts';
import { Heartbeat } from '../ws/heartbeat.ts';
import { type SocketContext, WireSocket } from '../ws/wire-socket.ts';
import { GOODBYE_MS, MAX_BUFFERED_BYTES, MAX_MESSAGE_BYTES, PING_MS } from './limits.ts';
import { ListenError } from './listen-error.ts';
import { OwnConnection } from './own-connection.ts';
import type { ConnectionContext } from './own-context.ts';

/** Connections that may wait to be accepted. */
const BACKLOG = 4096;

class OwnServer implements HttpServer, ConnectionContext<OwnConnection>, SocketContext {
  readonly adapter = 'own';
  readonly options: HttpServerOptions;
  readonly maxMessageBytes: number;
  readonly maxBufferedBytes: number;
  readonly deadlines = new Deadlines();
  port = 0;
  isClosing = false;
  readonly #server: Server;
  readonly #connections = new Set<OwnConnection>();
  readonly #sockets: Heartbeat<WireSocket>;
  /** No connection is left that is no WebSocket. */
  readonly #emptied = new InterruptiblePause();
  /** No WebSocket is left. */
  readonly #quiet = new InterruptiblePause();
  #end: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    this.options = options;
    this.maxMessageBytes = options.maxMessageBytes ?? MAX_MESSAGE_BYTES;
    this.maxBufferedBytes = options.maxBufferedBytes ?? MAX_BUFFERED_BYTES;
    this.#sockets = new Heartbeat(options.pingMs ?? PING_MS);
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      socket.on('error', () => undefined);
      this.#serve(wireOf(socket), plainAddress(socket.remoteAddress));
    });
  }

  /** Resolves once bound. Rejects with ListenError. */
  open(): Promise<this> {
    const { host, port } = this.options;
    return new Promise((resolve, reject) => {
      const failed = (cause: Error) => {
        this.#sockets.stop();
        reject(new ListenError('address_unavailable', `Cannot listen on ${host}:${port}.`, { cause }));
      };
      this.#server.once('error', failed);
      this.#server.listen({ host, port, backlog: BACKLOG }, () => {
        // An accept that fails (no file descriptor left) must not end the process; the next may succeed.
        this.#server.off('error', failed).on('error', () => undefined);
        const address = this.#server.address();
        this.port = typeof address === 'object' && address !== null ? address.port : port;
        if (usesHandles()) this.#takeHandles();
        resolve(this);
      });
    });
  }

  /** Connections never become sockets of Node: that is most of their memory. */
  #takeHandles(): void {
    takeHandles(this.#server, (handle) => {
      const peer: { address?: string } = {};
      handle.getpeername(peer);
      handle.setNoDelay(true);
      this.#serve(new HandleWire(handle), plainAddress(peer.address));
    });
  }

  #serve(wire: Wire, address: string): void {
    this.#connections.add(new OwnConnection(wire, this, address));
  }

  // ---------------------------------------------------------------------------------------------- from the connections

  left(connection: OwnConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size === 0) this.#emptied.wake();
  }

  socketOn(wire: Wire, handlers: SocketHandlers): WireSocket {
    const socket = new WireSocket(wire, handlers, this);
    this.#sockets.add(socket);
    return socket;
  }

  gone(socket: WireSocket): void {
    this.#sockets.remove(socket);
    if (this.#sockets.size === 0) this.#quiet.wake();
  }

  // ----------------------------------------------------------------------------------------------------------- the end

  close(graceMs: number, lingerMs = 0): Promise<void> {
    this.#end ??= this.#finish(graceMs, lingerMs);
    return this.#end;
  }

  async #finish(graceMs: number, lingerMs: number): Promise<void> {
    this.isClosing = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets.all()) socket.close(1001, 'server is closing');
    if (this.#sockets.size > 0) {
      this.#quiet.reset();
      await this.#quiet.wait(Math.min(graceMs, GOODBYE_MS));
    }
    if (lingerMs > 0) await this.#empty(lingerMs);
    for (const connection of this.#connections) connection.drain();
    await this.#empty(graceMs);
    for (const connection of this.#connections) connection.abort();
    for (const socket of this.#sockets.all()) socket.terminate();
    this.#sockets.stop();
    this.deadlines.close();
    await closed;
    // Clients in this process hear of it in the loop's next turn, and would still send a request before.
    await turn();
  }

  /** Until no connection is left, at most so long. */
  async #empty(ms: number): Promise<void> {
    if (this.#connections.size === 0) return;
    this.#emptied.reset();
    await this.#emptied.wait(ms);
  }
}

/** Opens Troupe's own server. Rejects with ListenError. */
export function listenOwn(options: HttpServerOptions): Promise<HttpServer> {
  return new OwnServer(options).open();
}
