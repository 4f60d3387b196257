/**
 * What connections are told, and the frame they share: the actor of a connection hears control messages (open, close,
 * the token's end), while bytes go past it, straight between the socket and what it shows.
 */
import { fittingReason } from '../../lib/close-frame.ts';
import type { Socket, SocketFrame, SocketHandlers } from '../../proto/ports/http.ts';
import {
  ActorError,
  type AnyRef,
  type Context,
  dispatch,
  type Ref,
  type SpawnOptions,
  spawn,
  stop,
} from '../../supervision/index.ts';
import {
  NEVER,
  nextAttach,
  soonAttach,
  startTimers,
  stopTimers,
  type TimedConnection,
  tickIn,
} from './connection-timers.ts';

/** What the actor of a connection understands; `News` is what only its kind does. */
export type ConnectionMessage<News = never> =
  /** Close the socket, with a close code (RFC 6455, section 7.4) that says whether to come back: 1012 and 1013 do. */
  | { readonly type: 'close'; readonly code: number; readonly reason: string }
  /** The socket is gone. */
  | { readonly type: 'gone' }
  /** Send this text. */
  | { readonly type: 'send'; readonly text: string }
  /** The connection could not begin. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** Time to say again that we are here. */
  | { readonly type: 'attach' }
  /**
   * That actor knows us. When it ends, because it moves to another node or its node died, it is time to say so again.
   */
  | { readonly type: 'attached'; readonly by: AnyRef }
  /** For the connection itself. */
  | { readonly type: 'news'; readonly news: News };

/** How a stream ends: a close code of docs/reference/streams.md and its reason. */
export interface ConnectionEnd {
  readonly code: number;
  readonly reason: string;
}

/** What a kind of connection does with its socket. All ends when the signal of `life` aborts, then `ended` comes. */
export interface Connection<News = never> {
  /** The socket is open; `self` is this connection's actor. The signal is made when it is first asked for. */
  open(socket: Socket, self: Ref<ConnectionMessage<News>>, life: { readonly signal: AbortSignal }): void;
  binary?(data: Uint8Array): void;
  text?(data: string): void;
  drain?(): void;
  /** The socket is gone, whoever closed it; 1006 when the connection was lost. */
  closed?(code: number): void;
  /** Asked at the start and every 20 s, for connections that subscribe to an actor. */
  attach?(self: Ref<ConnectionMessage<News>>): void;
  /** Whoever it attaches to says `attached` each time: without that word it is repeated soon. */
  readonly isAnswered?: true;
  news?(news: News): void;
  /** Its actor has ended. */
  ended?(): void;
}

/** Unasked text or binary frames: closed with 1003, "cannot accept" (RFC 6455, section 7.4.1). */
const UNSUPPORTED = 1003;
const POLICY = 1008;
const RESTART = 1012;

const expired = { type: 'close', code: POLICY, reason: 'token expired' } as const;
const attach = { type: 'attach' } as const;
const gone = { type: 'gone' } as const;
const again = () => attach;

/** Makes the handlers of a socket: its actor is spawned under `parent` when the socket opens. */
export function connect<News = never>(
  parent: AnyRef,
  kind: string,
  expiresInMs: number,
  connection: Connection<News>,
): SocketHandlers {
  return new ConnectionActor(siteOf(parent, kind), expiresInMs, connection);
}

/** Where actors of one kind of connection are spawned: the same for all of them. */
interface SpawnSite {
  readonly parent: AnyRef;
  readonly kind: string;
}

const sites = new WeakMap<AnyRef, Map<string, SpawnSite>>();

function siteOf(parent: AnyRef, kind: string): SpawnSite {
  let ofParent = sites.get(parent);
  if (ofParent === undefined) {
    ofParent = new Map();
    sites.set(parent, ofParent);
  }
  let site = ofParent.get(kind);
  if (site === undefined) {
    site = { parent, kind };
    ofParent.set(kind, site);
  }
  return site;
}

/** The signals of the few streams that asked for one. */
const controllers = new WeakMap<object, AbortController>();

/**
 * One socket with its actor. There are many, most of them silent: no closures, no timers, nothing that is made before
 * it is needed, nothing that is the same for all. (A private method with `#` would take a word of each.)
 */
class ConnectionActor<News>
  implements SocketHandlers, TimedConnection, SpawnOptions<ConnectionActor<News>, ConnectionMessage<News>>
{
  // The stream is also its actor's options, and its state: most of what an object would cost that only says so.
  readonly #site: SpawnSite;
  place = -1;
  readonly endsAt: number;
  attachAt = NEVER;
  readonly #connection: Connection<News>;
  #socket: Socket | undefined = undefined;
  #self: Ref<ConnectionMessage<News>> | undefined = undefined;

  constructor(site: SpawnSite, expiresInMs: number, connection: Connection<News>) {
    this.#site = site;
    this.endsAt = tickIn(expiresInMs);
    this.#connection = connection;
  }

  get kind(): string {
    return this.#site.kind;
  }

  get initialState(): this {
    return this;
  }

  get signal(): AbortSignal {
    let controller = controllers.get(this);
    if (controller === undefined) {
      controller = new AbortController();
      controllers.set(this, controller);
    }
    return controller.signal;
  }

  open(socket: Socket): void {
    this.#socket = socket;
    let self: Ref<ConnectionMessage<News>>;
    try {
      self = spawn<ConnectionActor<News>, ConnectionMessage<News>>(this.#site.parent, handle, this);
    } catch (error) {
      // The service began to stop while the upgrade was under way.
      if (!(error instanceof ActorError)) throw error;
      socket.close(RESTART, 'service restarts');
      return;
    }
    this.#self = self;
    if (this.#connection.attach !== undefined) this.attachAt = nextAttach();
    startTimers(this);
    try {
      this.#connection.open(socket, self, this);
      this.#attachTo(self);
    } catch (error) {
      dispatch(self, { type: 'failed', error });
    }
  }

  message(frame: SocketFrame): void {
    const connection = this.#connection;
    if ('text' in frame) {
      if (connection.text === undefined) this.#socket?.close(UNSUPPORTED, 'this stream takes no text frames');
      else connection.text(frame.text);
    } else if (connection.binary === undefined) this.#socket?.close(UNSUPPORTED, 'this stream takes no binary frames');
    else connection.binary(frame.binary);
  }

  drain(): void {
    this.#connection.drain?.();
  }

  close(code: number): void {
    this.#connection.closed?.(code);
    if (this.#self !== undefined) dispatch(this.#self, gone);
  }

  expired(): void {
    if (this.#self !== undefined) dispatch(this.#self, expired);
  }

  attach(): void {
    if (this.#self !== undefined) dispatch(this.#self, attach);
  }

  /** What its actor was told. */
  take(message: ConnectionMessage<News>, ctx: Context<ConnectionMessage<News>>): void {
    switch (message.type) {
      case 'news':
        this.#connection.news?.(message.news);
        return;
      case 'close':
        this.#socket?.close(message.code, fittingReason(message.reason));
        this.#stopActor();
        return;
      case 'gone':
        this.#stopActor();
        return;
      case 'send':
        this.#socket?.send(message.text);
        return;
      case 'attach':
        if (this.#self !== undefined) this.#attachTo(this.#self);
        return;
      case 'attached':
        this.attachAt = nextAttach();
        ctx.watch(message.by, again);
        return;
      case 'failed':
        throw message.error;
    }
  }

  #attachTo(self: Ref<ConnectionMessage<News>>): void {
    if (this.#connection.isAnswered === true) this.attachAt = soonAttach();
    this.#connection.attach?.(self);
  }

  /** Called without `this`, as options are. */
  afterStop(stream: ConnectionActor<News>): void {
    stream.#over();
  }

  /** The actor has ended: the service stops, or it failed, and the client should come back; or the socket is gone. */
  #over(): void {
    stopTimers(this);
    this.#socket?.close(RESTART, 'service restarts');
    controllers.get(this)?.abort();
    this.#connection.ended?.();
  }

  #stopActor(): void {
    if (this.#self !== undefined) stop(this.#self);
  }
}

function handle<News>(
  stream: ConnectionActor<News>,
  message: ConnectionMessage<News>,
  ctx: Context<ConnectionMessage<News>>,
): ConnectionActor<News> {
  stream.take(message, ctx);
  return stream;
}
