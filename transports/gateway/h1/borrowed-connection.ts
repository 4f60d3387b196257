/** What an exchange has of a connection to an origin. */
import type { Wire, WireReader } from '../../wire/wire.ts';

/** Whose request is under way. */
export interface ResponseReader extends WireReader {
  /** Takes bytes of the origin from `from` on; where what follows the response begins. */
  take(bytes: Buffer, from: number): number;
  /** The response has not begun, and will not come this way: the request is to be sent another way. */
  onMoved(): void;
}

/** A connection, or a place in one, lent to one exchange. */
export interface BorrowedConnection {
  /** The connection, for one exchange alone; undefined: others are before and behind this one. */
  readonly own: Wire | undefined;
  /** Whether it has carried an exchange before: its origin may have closed it just now. */
  readonly isReused: boolean;
  /** Told from now on what comes. */
  attach(reader: ResponseReader): void;
  /** Told no more. */
  detach(): void;
  /** Sends a request's head; a body goes to `own`. */
  write(head: string): void;
  pause(): void;
  resume(): void;
  /** The client has left. True: the response has to be read all the same, since others are behind it. */
  abandon(): boolean;
  /** What came is no response. True: it was meant for somebody else, perhaps, and `onMoved` has been called. */
  distrust(): boolean;
  /** Its place was given to a client that has fewer. */
  readonly isEvicted?: boolean;
  /** It will live on its own, and is counted with those that do; false when there are too many of them. */
  outlives?(): boolean;
  /** Gives it back. `keep`: the exchange is over on both sides, and the origin takes another. */
  release(keep: boolean): void;
}
