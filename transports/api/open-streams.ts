/**
 * The WebSockets and event streams that are open, by the token they were opened with: when the token is deleted or may do less, they close
 * (design.md, section 5: on every node, within a second).
 */
import type { Caller } from '../../proto/endpoint.ts';
import type { ByteSink, ByteSource, Socket, SocketFrame, SocketHandlers } from '../../proto/http.ts';
import type { Log } from '../../proto/ports.ts';
import { grants } from '../../proto/scopes.ts';
import type { EventStream } from '../../proto/service.ts';
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
  onEnd(reason: string): void;
  /** Its neighbours of the same token. */
  before: Open | undefined;
  after: Open | undefined;
}

/** A socket that is known while it is open. */
class Guarded implements SocketHandlers, Open {
  readonly caller: Caller;
  readonly scope: NeededScope | undefined;
  before: Open | undefined = undefined;
  after: Open | undefined = undefined;
  readonly #streams: OpenStreams;
  readonly #handlers: SocketHandlers;
  #socket: Socket | undefined = undefined;

  constructor(streams: OpenStreams, caller: Caller, scope: NeededScope | undefined, handlers: SocketHandlers) {
    this.caller = caller;
    this.scope = scope;
    this.#streams = streams;
    this.#handlers = handlers;
  }

  open(socket: Socket): void {
    this.#socket = socket;
    this.#streams.add(this);
    this.#handlers.open(socket);
  }

  message(frame: SocketFrame): void {
    this.#handlers.message(frame);
  }

  drain(): void {
    this.#handlers.drain();
  }

  close(code: number, reason: string): void {
    this.#streams.remove(this);
    this.#handlers.close(code, reason);
  }

  onEnd(reason: string): void {
    this.#socket?.close(POLICY, reason);
  }
}

/** A stream of events that is known while it is open. */
class GuardedEvents implements ByteSource, Open {
  readonly caller: Caller;
  readonly scope: NeededScope | undefined;
  before: Open | undefined = undefined;
  after: Open | undefined = undefined;
  readonly #streams: OpenStreams;
  readonly #events: EventStream;

  constructor(streams: OpenStreams, caller: Caller, scope: NeededScope | undefined, events: EventStream) {
    this.caller = caller;
    this.scope = scope;
    this.#streams = streams;
    this.#events = events;
    // Before it is open: news of the token may come first.
    streams.add(this);
  }

  open(sink: ByteSink): void {
    this.#events.open(sink);
  }

  drain(): void {
    this.#events.drain();
  }

  closed(): void {
    this.#streams.remove(this);
    this.#events.closed();
  }

  onEnd(): void {
    this.#events.end();
  }
}

/** The open streams of one process. */
export class OpenStreams implements TokenWatch {
  readonly #directory: TokenDirectory;
  readonly #log: Log;
  /** The first of each token, by its id: a list through the streams themselves. */
  readonly #open = new Map<string, Open>();
  readonly #retries = new Set<NodeJS.Timeout>();
  #closed = false;

  constructor(directory: TokenDirectory, log: Log) {
    this.#directory = directory;
    this.#log = log;
  }

  /** Handlers that do what `handlers` do, and are known here while their socket is open. */
  guard(caller: Caller, scope: NeededScope | undefined, handlers: SocketHandlers): SocketHandlers {
    return new Guarded(this, caller, this.#shared(caller, scope), handlers);
  }

  /** The same for a stream of events. */
  guardEvents(caller: Caller, scope: NeededScope | undefined, events: EventStream): ByteSource {
    return new GuardedEvents(this, caller, this.#shared(caller, scope), events);
  }

  watch(caller: Caller, scope: NeededScope | undefined, onEnd: (reason: string) => void): () => void {
    const entry: Open = { caller, scope, onEnd, before: undefined, after: undefined };
    this.add(entry);
    return () => this.remove(entry);
  }

  /** The same scope, as an object that the last stream of the token has already: there are many, and most need the same. */
  #shared(caller: Caller, scope: NeededScope | undefined): NeededScope | undefined {
    const known = this.#open.get(caller.tokenId)?.scope;
    return known?.key === scope?.key && known?.action === scope?.action ? known : scope;
  }

  /** Knows a stream until `remove`. */
  add(entry: Open): void {
    const first = this.#open.get(entry.caller.tokenId);
    entry.after = first;
    if (first !== undefined) first.before = entry;
    this.#open.set(entry.caller.tokenId, entry);
  }

  /** Again does nothing. */
  remove(entry: Open): void {
    const { before, after, caller } = entry;
    if (before !== undefined) before.after = after;
    else if (this.#open.get(caller.tokenId) === entry) {
      if (after === undefined) this.#open.delete(caller.tokenId);
      else this.#open.set(caller.tokenId, after);
    }
    if (after !== undefined) after.before = before;
    entry.before = undefined;
    entry.after = undefined;
  }

  /** How many streams are open. */
  get size(): number {
    let size = 0;
    for (const first of this.#open.values()) for (const _ of listFrom(first)) size += 1;
    return size;
  }

  /** Looks at the streams that the news is about, and closes those whose token no longer opens them. */
  look(news: TokenNews): void {
    for (const [tokenId, first] of this.#open) {
      if (concerns(news, first.caller)) void this.#check(tokenId, first.caller);
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
    // A list of its own: streams leave when they are told.
    for (const stream of [...listFrom(this.#open.get(tokenId))]) {
      const reason = reasonOf(stream);
      if (reason !== undefined) stream.onEnd(reason);
    }
  }
}

function* listFrom(first: Open | undefined): Generator<Open> {
  for (let stream = first; stream !== undefined; stream = stream.after) yield stream;
}
