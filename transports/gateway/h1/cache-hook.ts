/** What an exchange asks of a response cache (transports/gateway/cache), and how it shows it what passes. */
import type { CacheMode } from '../../../proto/gateway/cache-mode.ts';
import type { UpstreamAddress } from '../../../proto/gateway/traffic.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import type { ResponseHead } from './response-head.ts';

/** A request that is about to be forwarded. */
export interface CacheRequest {
  readonly head: RequestHead;
  readonly origin: UpstreamAddress;
  /** Path and query that the origin is asked for. */
  readonly target: string;
  readonly isEncrypted: boolean;
  /** Of the client, as the origin is told. */
  readonly address: string;
  /** What may be kept of this way in; undefined: `default`. */
  readonly mode?: CacheMode | undefined;
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

/**
 * A request is answered from the cache, forwarded with or without a sink that looks on, or failed as another. `says`: a
 * line for the answer's head, with its end.
 */
export type CacheAnswer =
  | { readonly kind: 'hit'; readonly answer: CachedAnswer }
  | { readonly kind: 'forward'; readonly sink?: CacheSink; readonly says?: string }
  | { readonly kind: 'fail'; readonly status: FailureStatus; readonly reason: string };

/** Forwarded, and nothing is kept or said. */
export const FORWARD: CacheAnswer = { kind: 'forward' };

/** A response cache. */
export interface CacheHook {
  /** Asked once for each request to forward. A promise: another for the same is under way, and waited for, bounded. */
  ask(request: CacheRequest): CacheAnswer | Promise<CacheAnswer>;
  /** Another program answers from now on at all ports of this host. */
  forget?(origin: string): void;
}
