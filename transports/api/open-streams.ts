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

/** What is the same for all streams that one token opened by the same scope: there are many streams and few of these. */
interface Group {
  readonly key: string;
  readonly streams: OpenStreams;
  readonly caller: Caller;
  /** Undefined when none was needed. */
  readonly scope: NeededScope | undefined;
  /** A list through the streams themselves. */
  first: Open | undefined;
}

interface Open {
  group: Group;
  onEnd(reason: string): void;
  /** Its neighbours of the same group. */
  before: Open | undefined;
  after: Open | undefined;
}

/** A socket that is known while it is open. */
class Guarded implements SocketHandlers, Open {
  group: Group;
  before: Open | undefined = undefined;
  after: Open | undefined = undefined;
  private readonly handlers: SocketHandlers;
  private socket: Socket | undefined = undefined;

  constructor(group: Group, handlers: SocketHandlers) {
    this.group = group;
    this.handlers = handlers;
  }

  open(socket: Socket): void {
    this.socket = socket;
    this.group.streams.add(this);
    this.handlers.open(socket);
  }

  message(frame: SocketFrame): void {
    this.handlers.message(frame);
  }

  drain(): void {
    this.handlers.drain();
  }

  close(code: number, reason: string): void {
    this.group.streams.remove(this);
    this.handlers.close(code, reason);
  }

  onEnd(reason: string): void {
    this.socket?.close(POLICY, reason);
  }
}

/** A stream of events that is known while it is open. */
class GuardedEvents implements ByteSource, Open {
  group: Group;
  before: Open | undefined = undefined;
  after: Open | undefined = undefined;
  private readonly events: EventStream;

  constructor(group: Group, events: EventStream) {
    this.group = group;
    this.events = events;
    // Before it is open: news of the token may come first.
    group.streams.add(this);
  }

  open(sink: ByteSink): void {
    this.events.open(sink);
  }

  drain(): void {
    this.events.drain();
  }

  closed(): void {
    this.group.streams.remove(this);
    this.events.closed();
  }

  onEnd(): void {
    this.events.end();
  }
}

/** The open streams of one process. */
export class OpenStreams implements TokenWatch {
  readonly #directory: TokenDirectory;
  readonly #log: Log;
  /** Those that have streams. */
  readonly #groups = new Map<string, Group>();
  readonly #retries = new Set<NodeJS.Timeout>();
  #closed = false;

  constructor(directory: TokenDirectory, log: Log) {
    this.#directory = directory;
    this.#log = log;
  }

  /** Handlers that do what `handlers` do, and are known here while their socket is open. */
  guard(caller: Caller, scope: NeededScope | undefined, handlers: SocketHandlers): SocketHandlers {
    return new Guarded(this.#groupOf(caller, scope), handlers);
  }

  /** The same for a stream of events. */
  guardEvents(caller: Caller, scope: NeededScope | undefined, events: EventStream): ByteSource {
    return new GuardedEvents(this.#groupOf(caller, scope), events);
  }

  watch(caller: Caller, scope: NeededScope | undefined, onEnd: (reason: string) => void): () => void {
    const entry: Open = { group: this.#groupOf(caller, scope), onEnd, before: undefined, after: undefined };
    this.add(entry);
    return () => this.remove(entry);
  }

  /** The group that streams of a token have already, or one that they may begin. */
  #groupOf(caller: Caller, scope: NeededScope | undefined): Group {
    const key = scope === undefined ? caller.tokenId : `${caller.tokenId} ${scope.action} ${scope.key}`;
    return this.#groups.get(key) ?? { key, streams: this, caller, scope, first: undefined };
  }

  /** Knows a stream until `remove`. */
  add(entry: Open): void {
    // Another may have begun the group since this one was told its own.
    const group = this.#groups.get(entry.group.key) ?? entry.group;
    this.#groups.set(group.key, group);
    entry.group = group;
    entry.after = group.first;
    if (group.first !== undefined) group.first.before = entry;
    group.first = entry;
  }

  /** Again does nothing. */
  remove(entry: Open): void {
    const { before, after, group } = entry;
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
  look(news: TokenNews): void {
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
      for (const stream of [...listFrom(group.first)]) stream.onEnd(reason);
    }
  }

  #ofToken(tokenId: string): Group[] {
    return [...this.#groups.values()].filter(({ caller }) => caller.tokenId === tokenId);
  }
}

function* listFrom(first: Open | undefined): Generator<Open> {
  for (let stream = first; stream !== undefined; stream = stream.after) yield stream;
}
