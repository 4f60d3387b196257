/** WebSockets whose origin is ended soon, since another has its place: their clients are asked to come again first. */
import type { SocketDirection } from './socket-direction.ts';

/** One is left within so long of the other: each asks the new origin for a connection. ms */
const LEAVE_WITHIN_MS = 5000;
/** How long the two sides of one that was left may take to close it, ms. */
const LEFT_MS = 3000;

/** A WebSocket that can be left. */
interface OpenSocket {
  readonly direction: SocketDirection;
  /** Ends both of its connections. */
  end(): void;
}

/** Those of one gateway, by the address of their origin. */
export class LeftSockets {
  readonly #leaveMs: number;
  readonly #open = new Map<string, Set<OpenSocket>>();
  readonly #timers = new Set<NodeJS.Timeout>();

  /** `leaveMs`: how long after `leaveOrigin` the last one is left. */
  constructor(leaveMs: number) {
    this.#leaveMs = leaveMs;
  }

  /** Takes one that is open. Returns what takes it out again. */
  add(originHost: string, socket: OpenSocket): () => void {
    const sockets = this.#open.get(originHost) ?? new Set();
    this.#open.set(originHost, sockets.add(socket));
    return () => {
      sockets.delete(socket);
      if (sockets.size === 0 && this.#open.get(originHost) === sockets) this.#open.delete(originHost);
    };
  }

  /** The origin at this address is ended soon. */
  leaveOrigin(address: string): void {
    const sockets = this.#open.get(address);
    for (const socket of sockets ?? []) {
      this.#after(this.#leaveMs - Math.random() * LEAVE_WITHIN_MS, () => {
        if (sockets?.has(socket)) socket.direction.leave(() => this.#after(LEFT_MS, () => socket.end()));
      });
    }
  }

  /** Nobody is left any more. */
  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  #after(ms: number, work: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, ms).unref();
    this.#timers.add(timer);
  }
}
