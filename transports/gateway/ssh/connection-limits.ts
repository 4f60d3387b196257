/** Looks after connections that stay: bounds what waits in memory for all, and has keys exchanged anew in time. */

import { exchangeKeys, isExchanging } from './internals.ts';
import type { SshEnd } from './ssh-end.ts';

/** Bounds, each with a default. */
export interface SshConnectionLimits {
  /** Bytes that may wait for all connections together; past it those with the most are ended. */
  readonly waitingBytes: number;
  /** Bytes that may wait to be sent to one peer. */
  readonly unsentBytes: number;
  /** Bytes after which keys are exchanged anew (RFC 4253 section 9). */
  readonly rekeyBytes: number;
  /** How long an exchange of keys may take, ms. */
  readonly rekeyMs: number;
  /** Between two looks, ms. */
  readonly sweepMs: number;
}

const SSH_CONNECTION_LIMITS: SshConnectionLimits = {
  waitingBytes: 256 * 1024 * 1024,
  unsentBytes: 8 * 1024 * 1024,
  rekeyBytes: 1024 ** 3,
  rekeyMs: 30_000,
  sweepMs: 1000,
};

interface WatchedConnection {
  readonly end: (text: string) => void;
  readonly exchanges: readonly KeyExchange[];
}

interface KeyExchange {
  readonly side: SshEnd;
  /** Bytes that had passed when keys were last exchanged. */
  passed: number;
  /** When the exchange under way was first seen. */
  since: number | undefined;
}

/** Looks now and then while there is a connection. */
export class ConnectionLimiter {
  readonly #limits: SshConnectionLimits;
  readonly #watched = new Set<WatchedConnection>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: Partial<SshConnectionLimits> = {}) {
    this.#limits = { ...SSH_CONNECTION_LIMITS, ...limits };
  }

  /** Watches the connections of a login until the function that comes back is called; `end` ends it. */
  add(sides: readonly SshEnd[], end: (text: string) => void): () => void {
    const exchanges = sides.map((side): KeyExchange => ({ side, passed: 0, since: undefined }));
    const watched: WatchedConnection = { end, exchanges };
    this.#watched.add(watched);
    this.#timer ??= setInterval(() => this.#sweep(), this.#limits.sweepMs);
    return () => {
      this.#watched.delete(watched);
      if (this.#watched.size === 0) this.close();
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #sweep(): void {
    let total = 0;
    const sizes: { watched: WatchedConnection; bytes: number }[] = [];
    for (const watched of this.#watched) {
      const sides = watched.exchanges.map(({ side }) => side);
      const unsent = Math.max(...sides.map(({ unsentBytes }) => unsentBytes));
      if (unsent > this.#limits.unsentBytes || watched.exchanges.some((one) => this.#isOverdue(one))) {
        watched.end('The connection does not take what is sent to it.');
        continue;
      }
      const bytes = sides.reduce((sum, { waitingBytes }) => sum + waitingBytes, 0);
      total += bytes;
      sizes.push({ watched, bytes });
    }
    sizes.sort((a, b) => b.bytes - a.bytes);
    for (const { watched, bytes } of sizes) {
      if (total <= this.#limits.waitingBytes) return;
      total -= bytes;
      watched.end(
        'The gateway is short of memory, and this connection holds most of it: read faster, or less at once.',
      );
    }
  }

  /** Exchanges keys when it is time; whether an exchange takes too long. */
  #isOverdue(exchange: KeyExchange): boolean {
    const { peer, socket } = exchange.side;
    if (isExchanging(peer)) {
      exchange.since ??= performance.now();
      return performance.now() - exchange.since > this.#limits.rekeyMs;
    }
    exchange.since = undefined;
    const passed = bytesOf(socket);
    if (passed - exchange.passed >= this.#limits.rekeyBytes) {
      exchange.passed = passed;
      exchangeKeys(peer);
    }
    return false;
  }
}

/** Bytes that went through a socket. */
function bytesOf(socket: object): number {
  const read = 'bytesRead' in socket ? Number(socket.bytesRead) : 0;
  return read + ('bytesWritten' in socket ? Number(socket.bytesWritten) : 0);
}
