/** Connections to origins: kept alive, bounded, and never used again once anything unasked came over them. */
import { connect, type Socket } from 'node:net';
import type { UpstreamAddress } from '../../proto/gateway.ts';

/** What goes wrong on the way to an origin. */
export type UpstreamErrorCode = 'connect_failed' | 'connect_timeout' | 'too_many';

/** The one error `acquire` rejects with. */
export class UpstreamError extends Error {
  readonly code: UpstreamErrorCode;
  constructor(code: UpstreamErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'UpstreamError';
    this.code = code;
  }
}

export interface UpstreamLimits {
  /** Most connections to one origin. */
  readonly maxPerOrigin: number;
  /** Most idle connections to one origin. */
  readonly maxIdle: number;
  /** How long an unused connection is kept, ms: less than what origins keep. */
  readonly idleMs: number;
  readonly connectMs: number;
}

export const UPSTREAM_LIMITS: UpstreamLimits = { maxPerOrigin: 1024, maxIdle: 64, idleMs: 4000, connectMs: 5000 };

/** What traffic says of an origin. */
export interface UpstreamHealth {
  readonly address: string;
  readonly connections: number;
  readonly idle: number;
  /** Connections that could not be opened, one after the other; 0 when the last could. */
  readonly failures: number;
}

/** A connection lent to one exchange. */
export interface Lease {
  readonly socket: Socket;
  /** Whether it has carried an exchange before: its origin may have closed it just now. */
  readonly isReused: boolean;
  /** Gives it back. `keep`: the exchange is over on both sides, and the origin takes another. */
  release(keep: boolean): void;
}

interface Origin {
  readonly key: string;
  readonly address: UpstreamAddress;
  /** Open or opening. */
  connections: number;
  failures: number;
  /** The newest last: it is the least likely to be closed. */
  readonly idle: IdleConnection[];
}

interface IdleConnection {
  readonly socket: Socket;
  readonly since: number;
}

/** All connections to origins of one gateway. */
export class Upstreams {
  readonly #limits: UpstreamLimits;
  readonly #origins = new Map<string, Origin>();
  readonly #sweep: NodeJS.Timeout;
  #closed = false;

  constructor(limits: Partial<UpstreamLimits> = {}) {
    this.#limits = { ...UPSTREAM_LIMITS, ...limits };
    this.#sweep = setInterval(() => this.#expire(), 1000);
    this.#sweep.unref();
  }

  /** An idle connection if there is one (unless `isFresh`), else undefined: then `open`. */
  reuse(address: UpstreamAddress): Lease | undefined {
    const origin = this.#origins.get(keyOf(address));
    for (;;) {
      const found = origin?.idle.pop();
      if (origin === undefined || found === undefined) return undefined;
      const { socket } = found;
      disarm(socket);
      if (!socket.destroyed && socket.readable && socket.writable) return this.#lease(origin, socket, true);
      socket.destroy();
    }
  }

  /** Opens a connection. Rejects with UpstreamError. `signal` gives up. */
  open(address: UpstreamAddress, signal?: AbortSignal): Promise<Lease> {
    const origin = this.#originOf(address);
    if (this.#closed || origin.connections >= this.#limits.maxPerOrigin) {
      return Promise.reject(new UpstreamError('too_many', `There are too many connections to ${origin.key}.`));
    }
    origin.connections++;
    return new Promise((resolve, reject) => {
      // The client decides how long a half-closed connection lives; the origin may answer after our FIN.
      const socket = connect({ ...address, noDelay: true, allowHalfOpen: true });
      const giveUp = (error: UpstreamError) => {
        done();
        socket.destroy();
        reject(error);
      };
      const fail = (error: UpstreamError) => {
        origin.failures++;
        giveUp(error);
      };
      const onError = (cause: Error) =>
        fail(new UpstreamError('connect_failed', `${origin.key} does not take connections.`, { cause }));
      // Says nothing about the origin.
      const onAbort = () => giveUp(new UpstreamError('connect_failed', 'Nobody waits any more.'));
      const timer = setTimeout(
        () => fail(new UpstreamError('connect_timeout', `${origin.key} did not answer in time.`)),
        this.#limits.connectMs,
      );
      const done = () => {
        clearTimeout(timer);
        socket.off('error', onError);
        socket.on('error', ignore);
        signal?.removeEventListener('abort', onAbort);
      };
      socket.once('close', () => {
        origin.connections--;
        this.#forget(origin);
      });
      socket.once('error', onError);
      signal?.addEventListener('abort', onAbort, { once: true });
      if (signal?.aborted) {
        onAbort();
        return;
      }
      socket.once('connect', () => {
        done();
        origin.failures = 0;
        resolve(this.#lease(origin, socket, false));
      });
    });
  }

  health(): UpstreamHealth[] {
    return [...this.#origins.values()].map(({ key, connections, idle, failures }) => ({
      address: key,
      connections,
      idle: idle.length,
      failures,
    }));
  }

  /** Ends the idle connections; those that are lent end with their exchanges. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#sweep);
    for (const { idle } of this.#origins.values()) for (const { socket } of idle.splice(0)) socket.destroy();
  }

  #lease(origin: Origin, socket: Socket, isReused: boolean): Lease {
    let isOut = true;
    return {
      socket,
      isReused,
      release: (keep) => {
        if (!isOut) return;
        isOut = false;
        if (!keep || this.#closed || socket.destroyed || origin.idle.length >= this.#limits.maxIdle) {
          socket.destroy();
          return;
        }
        // Whatever comes unasked would be taken for the answer to the next request (hazard H12).
        socket.on('data', ending).on('end', ending).resume();
        origin.idle.push({ socket, since: performance.now() });
      },
    };
  }

  #originOf(address: UpstreamAddress): Origin {
    const key = keyOf(address);
    let origin = this.#origins.get(key);
    if (origin === undefined) {
      origin = { key, address, connections: 0, failures: 0, idle: [] };
      this.#origins.set(key, origin);
    }
    return origin;
  }

  #forget(origin: Origin): void {
    const dead = origin.idle.findIndex(({ socket }) => socket.destroyed);
    if (dead >= 0) origin.idle.splice(dead, 1);
    // One that fails is remembered, for those who ask how it is.
    if (origin.connections === 0 && origin.failures === 0) this.#origins.delete(origin.key);
  }

  #expire(): void {
    const before = performance.now() - this.#limits.idleMs;
    for (const { idle } of this.#origins.values()) {
      while (idle[0] !== undefined && idle[0].since < before) idle.shift()?.socket.destroy();
    }
  }
}

function keyOf({ host, port }: UpstreamAddress): string {
  return `${host}:${port}`;
}

function ending(this: Socket): void {
  this.destroy();
}

function disarm(socket: Socket): void {
  socket.off('data', ending).off('end', ending);
}

function ignore(): void {}
