import type { HttpServerOptions, SocketHandlers } from '../../proto/ports/http.ts';
import type { Deadlines, Timed } from '../wire/deadlines.ts';
import type { Wire } from '../wire/wire.ts';
import type { WireSocket } from '../ws/wire-socket.ts';
import { STALL_TIMEOUT_MS } from './limits.ts';

/** What all connections of Troupe's own server share. `Connection` is the connection's own class. */
export interface ConnectionContext<Connection = object> {
  readonly options: HttpServerOptions;
  readonly deadlines: Pick<Deadlines, 'now' | 'add' | 'remove'>;
  /** The server closes: connections end with their reply. */
  readonly isClosing: boolean;
  /** The connection is over, or has become a WebSocket. Called once. */
  left(connection: Connection): void;
  /** Takes a connection over for a WebSocket. */
  socketOn(wire: Wire, handlers: SocketHandlers): WireSocket;
}

/** How long the client of a connection has for what it does now. */
export abstract class Patience implements Timed {
  deadline = Number.POSITIVE_INFINITY;
  readonly wire: Wire;
  readonly #deadlines: Pick<Deadlines, 'now'>;
  /** Bytes that waited for the client when its deadline passed last. */
  #unsent = Number.POSITIVE_INFINITY;

  constructor(wire: Wire, deadlines: Pick<Deadlines, 'now'>) {
    this.wire = wire;
    this.#deadlines = deadlines;
  }

  abstract onDeadline(): void;

  /** Ends the connection now. */
  abort(): void {
    this.wire.destroy();
  }

  /** It has so long from now. */
  protected grant(ms: number): void {
    this.deadline = this.#deadlines.now() + ms;
    this.#unsent = Number.POSITIVE_INFINITY;
  }

  /** Cuts a client off that has taken nothing since the deadline before. */
  protected stalled(): void {
    const { unsent } = this.wire;
    if (unsent === 0 || unsent >= this.#unsent) {
      this.wire.destroy();
      return;
    }
    this.grant(STALL_TIMEOUT_MS);
    this.#unsent = unsent;
  }
}
