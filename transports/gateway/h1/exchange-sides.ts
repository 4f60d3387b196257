/** The two sides of an exchange: its client, and the connection to an origin. */
import type { Wire, WireReader } from '../../wire/wire.ts';

/** Who is answered. Nothing is called after `finish`, `fail`, `destroy` or `switched`. */
export interface ExchangeClient {
  /** Sends to the client; false asks to wait for `resume`. */
  write(data: string | Buffer): boolean;
  /** The same with bytes that nobody changes: large ones need not be copied. */
  writeStable(bytes: Buffer): boolean;
  /** Several writes that should leave together. */
  cork(): void;
  uncork(): void;
  /** The origin is there: the body may come. */
  ready(): void;
  /** The origin takes more of the body. */
  resumeBody(): void;
  /** Something came from the origin. */
  progress(): void;
  /** The response has been sent. `keep`: its end is clear to the client. */
  finish(keep: boolean): void;
  /** There is no response: say so. */
  fail(status: 502 | 503 | 504, reason: string): void;
  /** The response broke off: the client must see that it is not whole. */
  destroy(): void;
  /**
   * The origin, at `host`, switched protocols, and said `rest` besides: from here on both connections belong to the
   * client's side.
   */
  switched(origin: Wire, rest: Buffer, host: string): void;
}

/** A client that has left. */
export const GONE: ExchangeClient = {
  write: () => true,
  writeStable: () => true,
  cork: () => {},
  uncork: () => {},
  ready: () => {},
  resumeBody: () => {},
  progress: () => {},
  finish: () => {},
  fail: () => {},
  destroy: () => {},
  switched: () => {},
};

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

/** One chunk of a chunked body. */
export function writeChunk(to: Pick<ExchangeClient, 'cork' | 'uncork' | 'write'>, data: Buffer): boolean {
  to.cork();
  to.write(`${data.length.toString(16)}\r\n`);
  to.write(data);
  const more = to.write('\r\n');
  to.uncork();
  return more;
}
