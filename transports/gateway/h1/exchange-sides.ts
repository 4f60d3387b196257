/** The two sides of an exchange: its client, and the connection to an origin. */

import type { UpstreamAddress } from '../../../proto/gateway/traffic.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import type { Wire, WireReader } from '../../wire/wire.ts';
import type { ResponseHead } from './response-head.ts';

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
  /** The origin switched protocols: from here on both connections belong to the client's side. */
  switched(origin: Wire, rest: Buffer): void;
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

/** A request that is about to be forwarded. */
export interface CacheRequest {
  readonly head: RequestHead;
  readonly origin: UpstreamAddress;
  /** Path and query that the origin is asked for. */
  readonly target: string;
  readonly isEncrypted: boolean;
  /** Of the client, as the origin is told. */
  readonly address: string;
}

/** Is shown the one response of a forwarded request. After `end`, `fail` or `abort` nothing follows. */
export interface CacheSink {
  /** The final head. Returns the head to send to the client. */
  begin(response: ResponseHead): ResponseHead;
  /** A part of the body, without its framing. Copied: the buffer may be used again. */
  data(bytes: Buffer): void;
  /** The client takes no more for now, or takes more again. */
  paused(): void;
  resumed(): void;
  /** The response is whole. */
  end(): void;
  /** The gateway answered with this instead: the origin gave no response. */
  fail(status: FailureStatus, reason: string): void;
  /** The client is gone, or the response broke off. */
  abort(): void;
}

export type FailureStatus = 502 | 503 | 504;

/** A stored response. What it gives is shared by many clients: never to be written to. */
export interface CachedAnswer {
  readonly status: 200 | 304;
  /** Bytes of its body. */
  readonly length: number;
  /** Head and body as they are sent now, in one buffer or two. */
  wire(keepAlive: boolean, minor: 0 | 1): readonly [Buffer] | readonly [head: Buffer, body: Buffer];
  /** Its memory counts until what comes back is called, even if it is dropped meanwhile. */
  hold(): () => void;
}

/** A request is answered from the cache, forwarded with or without a sink that looks on, or failed as another. */
export type CacheAnswer =
  | { readonly kind: 'hit'; readonly answer: CachedAnswer }
  | { readonly kind: 'forward'; readonly sink?: CacheSink }
  | { readonly kind: 'fail'; readonly status: FailureStatus; readonly reason: string };

/** Forwarded, and nothing is kept. */
export const FORWARD: CacheAnswer = { kind: 'forward' };

/** A response cache. */
export interface CacheHook {
  /** Asked once for each request to forward. A promise: another for the same is under way, and waited for, bounded. */
  ask(request: CacheRequest): CacheAnswer | Promise<CacheAnswer>;
}
