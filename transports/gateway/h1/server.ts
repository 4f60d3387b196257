/** Serves HTTP/1.1 on sockets that somebody else took: a listener, after TLS, after detection. */
import type { Socket } from 'node:net';
import { InterruptiblePause } from '../../../lib/waiting.ts';
import type { ClientConnections, GatewayDecider } from '../../../proto/gateway/gateway-decider.ts';
import type { AccessEntry } from '../../../proto/gateway/traffic.ts';
import { Deadlines } from '../../wire/deadlines.ts';
import type { IsTrusted } from '../../wire/peer-address.ts';
import type { Wire } from '../../wire/wire.ts';
import { wireOf } from '../../wire/wires.ts';
import type { CacheHook } from './cache-hook.ts';
import { ClientConnection } from './client.ts';
import { CLIENT_TIMEOUTS, type ClientContext, type ClientTimeouts } from './client-context.ts';
import type { LoopGuard } from './loop-detection.ts';
import type { Upstreams } from './upstreams.ts';

interface ProxyOptions {
  readonly decider: Pick<GatewayDecider, 'decide' | 'isPlatformHost'>;
  /** Supervises the connections. */
  readonly clients?: ClientConnections | undefined;
  readonly upstreams: Upstreams;
  /** Is asked before a request is forwarded. */
  readonly cache?: CacheHook | undefined;
  readonly timeouts?: Partial<ClientTimeouts> | undefined;
  readonly onAccess?: (entry: AccessEntry) => void;
  /** Peers whose X-Forwarded-For is believed. */
  readonly isTrusted?: IsTrusted | undefined;
  /** Knows requests that come back. */
  readonly loop?: LoopGuard | undefined;
  /** Takes both wires of a connection that switched protocols. */
  readonly onSwitch: ClientContext['onSwitch'];
}

/** The HTTP side of the gateway: connections of any listener are handed to it. */
export class HttpProxy {
  readonly #options: ProxyOptions;
  readonly #deadlines = new Deadlines();
  readonly #connections = new Set<ClientConnection>();
  readonly #contexts = new Map<string, ClientContext>();
  readonly #idle = new InterruptiblePause();

  constructor(options: ProxyOptions) {
    this.#options = options;
  }

  /** Connections that are open. */
  get size(): number {
    return this.#connections.size;
  }

  /** Those of all clients. */
  get connections(): Iterable<ClientConnection> {
    return this.#connections;
  }

  /** Serves HTTP on a connected socket; `first` was read from it. `port`: ours; `serverName`: TLS ended here for it. */
  serve(socket: Socket, port: number, address: string, first?: Buffer, serverName?: string): void {
    socket.setNoDelay(true);
    this.serveWire(wireOf(socket), port, address, first, serverName);
  }

  /** The same on a wire. */
  serveWire(wire: Wire, port: number, address: string, first?: Buffer, serverName?: string): void {
    const context = this.#contextOf(port, serverName !== undefined);
    const connection = new ClientConnection(wire, context, address, first, serverName);
    this.#connections.add(connection);
    this.#options.clients?.add(address, connection);
  }

  /** Lets answers under way finish, at most `graceMs`, and ends all connections. */
  async close(graceMs: number): Promise<void> {
    for (const connection of this.#connections) connection.drain();
    if (this.#connections.size > 0) {
      this.#idle.reset();
      await this.#idle.wait(graceMs);
    }
    for (const connection of this.#connections) connection.abort();
    this.#deadlines.close();
  }

  #contextOf(port: number, isEncrypted: boolean): ClientContext {
    const key = `${port}/${isEncrypted}`;
    let context = this.#contexts.get(key);
    if (context === undefined) {
      const { decider, upstreams, cache, timeouts, onAccess, onSwitch, isTrusted, loop } = this.#options;
      context = {
        decider,
        isPlatformHost: (host) => decider.isPlatformHost?.(host) === true,
        upstreams,
        cache,
        onSwitch,
        port,
        isEncrypted,
        isTrusted,
        loop,
        deadlines: this.#deadlines,
        timeouts: { ...CLIENT_TIMEOUTS, ...timeouts },
        onAccess: onAccess ?? (() => {}),
        onDone: (connection) => {
          if (connection instanceof ClientConnection && this.#connections.delete(connection))
            this.#options.clients?.remove(connection.peer.address, connection);
          if (this.#connections.size === 0) this.#idle.wake();
        },
      };
      this.#contexts.set(key, context);
    }
    return context;
  }
}
