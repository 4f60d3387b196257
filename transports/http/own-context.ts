import type { HttpServerOptions, SocketHandlers } from '../../proto/ports/http.ts';
import type { Deadlines } from '../wire/deadlines.ts';
import type { Wire } from '../wire/wire.ts';
import type { WireSocket } from '../ws/wire-socket.ts';

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
