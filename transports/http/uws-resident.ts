import { randomBytes, randomUUID } from 'node:crypto';
import { type Socket as Connection, connect } from 'node:net';
import { waitAtMost } from '../../lib/waiting.ts';
import type { SocketHandlers } from '../../proto/ports/http.ts';
import { UwsSocket } from './uws-socket.ts';

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
