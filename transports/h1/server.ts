/** Takes connections and serves HTTP/1.1 on them; also on sockets that somebody else took (after TLS, after detection). */
import { createServer, type Server, type Socket } from 'node:net';
import type { AccessEntry, Route } from '../../proto/gateway.ts';
import { ClientConnection } from './client.ts';
import { CLIENT_TIMEOUTS, type ClientContext, type ClientTimeouts } from './client-context.ts';
import { Deadlines } from './deadlines.ts';
import type { Upstreams } from './upstreams.ts';

export interface ProxyOptions {
  readonly route: Route;
  readonly upstreams: Upstreams;
  readonly timeouts?: Partial<ClientTimeouts>;
  readonly onAccess?: (entry: AccessEntry) => void;
  /** Takes both sockets of a connection that switched protocols. */
  readonly onSwitch: ClientContext['onSwitch'];
}

/** The HTTP side of the gateway: connections of any listener are handed to it. */
export class HttpProxy {
  readonly #options: ProxyOptions;
  readonly #deadlines = new Deadlines();
  readonly #connections = new Set<ClientConnection>();
  readonly #contexts = new Map<string, ClientContext>();
  #idle: (() => void) | undefined;

  constructor(options: ProxyOptions) {
    this.#options = options;
  }

  /** Connections that are open. */
  get size(): number {
    return this.#connections.size;
  }

  /** Serves HTTP on `socket`, of which `first` has been read. `port`: ours; `isEncrypted`: TLS was ended here. */
  serve(socket: Socket, port: number, isEncrypted: boolean, address: string, first?: Buffer): void {
    const context = this.#contextOf(port, isEncrypted);
    this.#connections.add(new ClientConnection(socket, context, address, first));
  }

  /** Lets answers under way finish, at most `graceMs`, and ends all connections. */
  async close(graceMs: number): Promise<void> {
    for (const connection of this.#connections) connection.drain();
    if (this.#connections.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, graceMs);
        this.#idle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    for (const connection of this.#connections) connection.abort();
    this.#deadlines.close();
  }

  #contextOf(port: number, isEncrypted: boolean): ClientContext {
    const key = `${port}/${isEncrypted}`;
    let context = this.#contexts.get(key);
    if (context === undefined) {
      const { route, upstreams, timeouts, onAccess, onSwitch } = this.#options;
      context = {
        ...{ route, upstreams, onSwitch, port, isEncrypted, deadlines: this.#deadlines },
        timeouts: { ...CLIENT_TIMEOUTS, ...timeouts },
        onAccess: onAccess ?? (() => {}),
        onDone: (connection) => {
          if (connection instanceof ClientConnection) this.#connections.delete(connection);
          if (this.#connections.size === 0) this.#idle?.();
        },
      };
      this.#contexts.set(key, context);
    }
    return context;
  }
}

/** How many connections are let in. */
export interface ConnectionLimits {
  readonly total: number;
  readonly perAddress: number;
}

export const CONNECTION_LIMITS: ConnectionLimits = { total: 20_000, perAddress: 1000 };

/** Counts connections by address over all listeners of the gateway. */
export class Admission {
  readonly #limits: ConnectionLimits;
  readonly #byAddress = new Map<string, number>();
  #total = 0;

  constructor(limits: Partial<ConnectionLimits> = {}) {
    this.#limits = { ...CONNECTION_LIMITS, ...limits };
  }

  /** Counts the connection until its socket closes; false when it is one too many. */
  admit(socket: Socket, address: string): boolean {
    const count = this.#byAddress.get(address) ?? 0;
    if (this.#total >= this.#limits.total || count >= this.#limits.perAddress) return false;
    this.#total++;
    this.#byAddress.set(address, count + 1);
    socket.once('close', () => {
      this.#total--;
      const left = (this.#byAddress.get(address) ?? 1) - 1;
      if (left === 0) this.#byAddress.delete(address);
      else this.#byAddress.set(address, left);
    });
    return true;
  }
}

/** A listener of raw connections. */
export interface RawListener {
  readonly port: number;
  /** Takes no more connections; those that are open belong to whoever got them. */
  close(): Promise<void>;
}

/** Listens on `host` and `port` (0: any) and hands each admitted connection on, with the client's address. */
export async function listenRaw(
  host: string,
  port: number,
  admission: Admission,
  onConnection: (socket: Socket, address: string) => void,
): Promise<RawListener> {
  const server: Server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: false }, (socket) => {
    socket.on('error', () => {});
    const address = addressOf(socket);
    if (admission.admit(socket, address)) onConnection(socket, address);
    else socket.resetAndDestroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // An accept that fails (no file descriptor left) must not end the process; the next may succeed.
  server.on('error', () => {});
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : port,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** The peer's address, an IPv4-mapped one as IPv4. */
function addressOf(socket: Socket): string {
  const address = socket.remoteAddress ?? '';
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
