/**
 * The WebSockets and event streams that are open, by the token they were opened with: when the token is deleted or may
 * do less, they close (on every node, within a second).
 */

import type { NeededScope, TokenDirectory, TokenNews, TokenWatch } from '../../proto/auth/tokens.ts';
import type { Caller, EventStream } from '../../proto/endpoint.ts';
import type { ByteSink, ByteSource, SocketWatch, Watched } from '../../proto/ports/http.ts';
import type { Log } from '../../proto/ports/log.ts';
import { grants } from '../../proto/scopes.ts';
import { concerns } from './authenticate.ts';

/** Policy violation (RFC 6455, section 7.4.1): the same token will not be let in again. */
const POLICY = 1008;
/** How soon a look that failed is repeated, ms. */
const RETRY_MS = 1000;

/** What is the same for all streams that one token opened by one scope: there are many streams and few of these. */
class Group implements SocketWatch {
  readonly key: string;
  readonly caller: Caller;
  /** Undefined when none was needed. */
  readonly scope: NeededScope | undefined;
  /** A list through the streams themselves. */
  first: Watched | undefined = undefined;
  readonly #streams: OpenStreams;

  constructor(key: string, caller: Caller, scope: NeededScope | undefined, streams: OpenStreams) {
    this.key = key;
    this.caller = caller;
    this.scope = scope;
    this.#streams = streams;
  }

  opened(socket: Watched): SocketWatch {
    return this.#streams.add(this, socket);
  }

  closed(socket: Watched): void {
    this.#streams.remove(this, socket);
  }
}

/** A stream of events that is known while it is open. */
class GuardedEvents implements ByteSource, Watched {
  before: Watched | undefined = undefined;
  after: Watched | undefined = undefined;
  readonly #watch: SocketWatch;
  readonly #events: EventStream;

  constructor(watch: SocketWatch, events: EventStream) {
    this.#events = events;
    // Before it is open: news of the token may come first.
    this.#watch = watch.opened(this);
  }

  open(sink: ByteSink): void {
    this.#events.open(sink);
  }

  drain(): void {
    this.#events.drain();
  }

  closed(): void {
    this.#watch.closed(this);
    this.#events.closed();
  }

  close(): void {
    this.#events.end();
  }
}

/** The open streams of one process. */
export class OpenStreams implements TokenWatch {
  readonly #directory: TokenDirectory;
  readonly #log: Log;
  /** Those that have streams. */
  readonly #groups = new Map<string, Group>();
  readonly #retries = new Set<NodeJS.Timeout>();
  #news = 0;
  #closed = false;

  constructor(directory: TokenDirectory, log: Log) {
    this.#directory = directory;
    this.#log = log;
  }

  /** How much news there was so far. */
  get news(): number {
    return this.#news;
  }

  /**
   * Who watches over one socket of `caller`, closed with 1008 when its token no longer opens what needed `scope`.
   * `since`: the news there had been before the caller was proven; later ones may be about this socket.
   */
  watchOf(caller: Caller, scope: NeededScope | undefined, since: number): SocketWatch {
    const group = this.#groupOf(caller, scope);
    return {
      opened: (socket) => {
        const watch = group.opened(socket);
        if (this.#news !== since) void this.#check(caller);
        return watch;
      },
      closed: () => {},
    };
  }

  /** A stream of events that does what `events` does, and is watched over in the same way. */
  guardEvents(caller: Caller, scope: NeededScope | undefined, events: EventStream, since: number): ByteSource {
    return new GuardedEvents(this.watchOf(caller, scope, since), events);
  }

  watch(caller: Caller, scope: NeededScope | undefined, onEnd: (reason: string) => void): () => void {
    const entry: Watched = { before: undefined, after: undefined, close: (_code, reason) => onEnd(reason) };
    const group = this.#groupOf(caller, scope).opened(entry);
    // News that came since the socket closed found nothing to end.
    void this.#check(caller);
    return () => group.closed(entry);
  }

  /** The group that streams of a token have already, or one that they may begin. */
  #groupOf(caller: Caller, scope: NeededScope | undefined): Group {
    const key = scope === undefined ? caller.tokenId : `${caller.tokenId} ${scope.action} ${scope.key}`;
    return this.#groups.get(key) ?? new Group(key, caller, scope, this);
  }

  /** Knows a stream until `remove`, which takes the group this gives: another may have begun it since `wanted`. */
  add(wanted: Group, entry: Watched): Group {
    const group = this.#groups.get(wanted.key) ?? wanted;
    this.#groups.set(group.key, group);
    entry.after = group.first;
    if (group.first !== undefined) group.first.before = entry;
    group.first = entry;
    return group;
  }

  /** Again does nothing. */
  remove(group: Group, entry: Watched): void {
    const { before, after } = entry;
    if (before !== undefined) before.after = after;
    else if (group.first === entry) {
      group.first = after;
      if (after === undefined) this.#groups.delete(group.key);
    }
    if (after !== undefined) after.before = before;
    entry.before = undefined;
    entry.after = undefined;
  }

  /** How many streams are open. */
  get size(): number {
    let size = 0;
    for (const { first } of this.#groups.values()) for (const _ of listFrom(first)) size += 1;
    return size;
  }

  /** Looks at the streams that the news is about, and closes those whose token no longer opens them. */
  recheck(news: TokenNews): void {
    this.#news += 1;
    const callers = new Map<string, Caller>();
    for (const { caller } of this.#groups.values()) if (concerns(news, caller)) callers.set(caller.tokenId, caller);
    for (const caller of callers.values()) void this.#check(caller);
  }

  /** Ends the retries; the sockets belong to their server. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#retries) clearTimeout(timer);
    this.#retries.clear();
  }

  async #check(caller: Caller): Promise<void> {
    const { tokenId } = caller;
    try {
      if (caller.kind === 'session') {
        const { userId, session = { issuedAt: 0, epoch: 0 } } = caller;
        if (!(await this.#directory.knowsUser(userId, { ...session, tokenId })))
          this.#end(tokenId, () => 'token revoked');
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
        if (this.#ofToken(tokenId).length > 0) void this.#check(caller);
      }, RETRY_MS);
      this.#retries.add(timer);
    }
  }

  #end(tokenId: string, reasonOf: (group: Group) => string | undefined): void {
    for (const group of this.#ofToken(tokenId)) {
      const reason = reasonOf(group);
      if (reason === undefined) continue;
      // A list of its own: streams leave when they are told.
      for (const stream of [...listFrom(group.first)]) stream.close(POLICY, reason);
    }
  }

  #ofToken(tokenId: string): Group[] {
    return [...this.#groups.values()].filter(({ caller }) => caller.tokenId === tokenId);
  }
}

function* listFrom(first: Watched | undefined): Generator<Watched> {
  for (let stream = first; stream !== undefined; stream = stream.after) yield stream;
}
