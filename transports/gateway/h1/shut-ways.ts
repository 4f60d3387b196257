/** What goes on although nobody might begin it any more: its rule or name was taken away, or asks visitors. */
import type { Entrance } from '../../../proto/gateway/gateway-decider.ts';
import { POLICY_VIOLATION, type SocketDirection } from './socket-direction.ts';

/** How long an answer under way may still take, and the two sides of a WebSocket to close it, ms. */
const GRACE_MS = 3000;

/** A connection on which another protocol than HTTP is spoken. */
interface OpenWay {
  readonly entrance: Entrance;
  /** Of a WebSocket. */
  readonly direction: SocketDirection | undefined;
  /** Ends both of its connections. */
  end(): void;
}

type Admits = (entrance: Entrance) => boolean;

/** A client's connection: what it asked for may be under way. */
interface AskingClient {
  /** By which way that came in; undefined: nothing of a container is under way. */
  readonly entrance: Entrance | undefined;
  /** Returns what ends it, unless that is over by then. */
  ending(): () => void;
}

/** See above. */
export class ShutWays {
  readonly #open = new Set<OpenWay>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #admits: Admits | undefined;

  /** Takes one that is open. Returns what takes it out again. */
  add(way: OpenWay): () => void {
    this.#open.add(way);
    // It may have been asked for before, and answered after the change.
    if (this.#admits?.(way.entrance) === false) this.#later(() => this.#end(way), 0);
    return () => void this.#open.delete(way);
  }

  /** Ends what `admits` says no of: WebSockets at once, answers unless they end by themselves soon. */
  end(admits: Admits, clients: Iterable<AskingClient>): void {
    this.#admits = admits;
    for (const way of this.#open) if (!admits(way.entrance)) this.#end(way);
    for (const client of clients) {
      const { entrance } = client;
      if (entrance !== undefined && !admits(entrance)) this.#later(client.ending());
    }
  }

  /** Nothing is ended any more. */
  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  #end({ direction, end }: OpenWay): void {
    if (direction === undefined) {
      end();
      return;
    }
    direction.leave(() => {}, POLICY_VIOLATION);
    // A client may not answer, and the ends of frames may not be known.
    this.#later(end);
  }

  #later(work: () => void, ms = GRACE_MS): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, ms).unref();
    this.#timers.add(timer);
  }
}
