/**
 * The WebSockets that are open, by the token they were opened with: when the token is deleted or may do less, they close
 * (design.md, section 5: on every node, within a second).
 */
import type { Caller } from '../../proto/endpoint.ts';
import type { SocketHandlers } from '../../proto/http.ts';
import type { Log } from '../../proto/ports.ts';
import { grants } from '../../proto/scopes.ts';
import type { NeededScope, TokenDirectory, TokenNews, TokenWatch } from '../../proto/tokens.ts';
import { concerns } from './authenticate.ts';

/** Policy violation (RFC 6455, section 7.4.1): the same token will not be let in again. */
const POLICY = 1008;
/** How soon a look that failed is repeated, ms. */
const RETRY_MS = 1000;

interface Open {
  readonly caller: Caller;
  /** Undefined when none was needed. */
  readonly scope: NeededScope | undefined;
  readonly onEnd: (reason: string) => void;
}

/** The open streams of one process. */
export class OpenStreams implements TokenWatch {
  readonly #directory: TokenDirectory;
  readonly #log: Log;
  /** By token id. */
  readonly #open = new Map<string, Set<Open>>();
  readonly #retries = new Set<NodeJS.Timeout>();
  #closed = false;

  constructor(directory: TokenDirectory, log: Log) {
    this.#directory = directory;
    this.#log = log;
  }

  /** Handlers that do what `handlers` do, and are known here while their socket is open. */
  guard(caller: Caller, scope: NeededScope | undefined, handlers: SocketHandlers): SocketHandlers {
    let unwatch: (() => void) | undefined;
    return {
      open: (socket) => {
        unwatch = this.watch(caller, scope, (reason) => socket.close(POLICY, reason));
        handlers.open(socket);
      },
      message: (frame) => handlers.message(frame),
      drain: () => handlers.drain(),
      close: (code, reason) => {
        unwatch?.();
        handlers.close(code, reason);
      },
    };
  }

  watch(caller: Caller, scope: NeededScope | undefined, onEnd: (reason: string) => void): () => void {
    const entry: Open = { caller, scope, onEnd };
    const streams = this.#open.get(caller.tokenId);
    if (streams === undefined) this.#open.set(caller.tokenId, new Set([entry]));
    else streams.add(entry);
    return () => this.#remove(entry);
  }

  /** How many streams are open. */
  get size(): number {
    let size = 0;
    for (const streams of this.#open.values()) size += streams.size;
    return size;
  }

  /** Looks at the streams that the news is about, and closes those whose token no longer opens them. */
  look(news: TokenNews): void {
    for (const [tokenId, streams] of this.#open) {
      const [first] = streams;
      if (first !== undefined && concerns(news, first.caller)) void this.#check(tokenId, first.caller);
    }
  }

  /** Ends the retries; the sockets belong to their server. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#retries) clearTimeout(timer);
    this.#retries.clear();
  }

  async #check(tokenId: string, caller: Caller): Promise<void> {
    try {
      if (caller.kind === 'session') {
        if (!(await this.#directory.knowsUser(caller.userId))) this.#end(tokenId, () => 'token revoked');
        return;
      }
      const grant = await this.#directory.grant(tokenId);
      this.#end(tokenId, ({ scope }) => {
        if (grant === undefined) return 'token revoked';
        return scope === undefined || grants(grant.scopes, scope.key, scope.action) ? undefined : 'scope withdrawn';
      });
    } catch (error) {
      if (this.#closed) return;
      this.#log.warn({ err: error, tokenId }, 'the token of an open stream could not be checked');
      const timer = setTimeout(() => {
        this.#retries.delete(timer);
        if (this.#open.has(tokenId)) void this.#check(tokenId, caller);
      }, RETRY_MS);
      this.#retries.add(timer);
    }
  }

  #end(tokenId: string, reasonOf: (stream: Open) => string | undefined): void {
    for (const stream of this.#open.get(tokenId) ?? []) {
      const reason = reasonOf(stream);
      if (reason !== undefined) stream.onEnd(reason);
    }
  }

  #remove(entry: Open): void {
    const streams = this.#open.get(entry.caller.tokenId);
    if (streams?.delete(entry) && streams.size === 0) this.#open.delete(entry.caller.tokenId);
  }
}
