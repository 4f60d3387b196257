/** The shapes between a server's sockets (transports/http) and whoever answers. All adapters speak exactly this. */
import type { Readable } from 'node:stream';
import { CodedError } from '../../lib/errors.ts';

/** A request, copied out of the server's memory before anything is awaited. */
export interface HttpRequest {
  /** Upper case. */
  readonly method: string;
  /** Path as sent, percent-encoding kept, without the query. Starts with `/`. */
  readonly path: string;
  /** Query as sent, without `?`; empty when there was none. */
  readonly query: string;
  /** Address of the peer of the socket, in text (IPv4-mapped IPv6 as IPv4). */
  readonly remoteAddress: string;
  /**
   * A header's value by lower-case name; undefined when absent. Only valid for names the adapter keeps (all of them).
   */
  header(name: string): string | undefined;
  /**
   * The whole body. Rejects with BodyError: `too_large` past `limit` bytes, `aborted` when the client left, or when the
   * request was answered before the body was there. Empty for requests without a body. May be called once.
   */
  body(limit: number): Promise<Uint8Array>;
  /**
   * The body as it comes, in place of `body`: the sender waits while it is not read. Destroyed with BodyError `aborted`
   * when the client left, or the request was answered.
   */
  stream(): Readable;
  /** Aborted when the client goes away before the reply was sent. */
  readonly signal: AbortSignal;
}

/** Why a request's body could not be read. */
export class BodyError extends CodedError<'too_large' | 'aborted'> {
  constructor(code: 'too_large' | 'aborted') {
    super(code, code === 'too_large' ? 'The request body is too large.' : 'The client went away.');
  }
}

/** A whole reply. content-length is set by the adapter; HEAD sends the same head without the body. */
export interface HttpReply {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body?: string | Uint8Array;
}

/** Where a pushed stream's bytes go. Once the stream is over every call is a no-op. */
export interface ByteSink {
  /** Sends bytes, which stay as they are. Returns false when some wait for a slow reader: stop until `drain`. */
  write(chunk: Uint8Array): boolean;
  /** The stream is over. */
  end(): void;
  /** The stream broke off: a 500 if nothing was sent, else the connection ends, so that nobody takes it for whole. */
  fail(): void;
}

/** What pushes a stream. One that is pulled costs several times the memory and time, and most streams are silent. */
export interface ByteSource {
  /** Called at most once, before anything else; it may write at once. */
  open(sink: ByteSink): void;
  /** What waited is on its way. */
  drain(): void;
  /** Called exactly once, when the stream is over, whoever ended it, and also when it never began. */
  closed(): void;
}

/** A reply of unknown length, pushed (server-sent events). The head goes out with the first bytes. */
export interface HttpPushReply {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly source: ByteSource;
}

/** Anything a request can be answered with. */
export type HttpAnswer = HttpReply | HttpPushReply;

/** A frame as received. Text is checked UTF-8. */
export type SocketFrame = { readonly text: string } | { readonly binary: Uint8Array };

/** One open WebSocket, as its owner sees it. After `onClose` every call is a no-op. */
export interface Socket {
  /**
   * Sends a frame. Returns false when bytes now wait for a slow reader: stop until `onDrain`. Past `maxBuffered` bytes
   * the frame is not taken and the socket is closed with 1013 `too slow`.
   */
  send(data: string | Uint8Array): boolean;
  /**
   * Runs `work`; the frames it sends leave together, which costs a fraction. Within it `send` returns false when the
   * batch should end, for the sake of other sockets. Returns false when bytes now wait for a slow reader.
   */
  batch(work: () => void): boolean;
  /** Bytes that wait to be sent. */
  buffered(): number;
  /** Stops and resumes reading from the peer (where the adapter can; else frames are delivered on). */
  pause(): void;
  resume(): void;
  /** Closing handshake, `code` and `reason` (<= 123 bytes). */
  close(code: number, reason: string): void;
}

/** What an accepted WebSocket calls on its owner. Frames arrive in order, never after `close`. */
export interface SocketHandlers {
  open(socket: Socket): void;
  message(frame: SocketFrame): void;
  drain(): void;
  /** Called exactly once per opened socket. */
  close(code: number, reason: string): void;
}

/** An open WebSocket for whoever may end it from outside: in a list through the sockets, which costs no objects. */
export interface Watched {
  /** Its neighbours in the list of its watch; the watch's own. */
  before: Watched | undefined;
  after: Watched | undefined;
  close(code: number, reason: string): void;
}

/** Whoever may end sockets from outside. */
export interface SocketWatch {
  /** The socket is open; its owner hears of it next. Gives the watch that is to hear of its end. */
  opened(socket: Watched): SocketWatch;
  /** The socket is over, whoever closed it. Called exactly once, on what `opened` gave. */
  closed(socket: Watched): void;
}

/** The answer to an upgrade: a plain refusal before 101, or the new socket's handlers, and who watches over it. */
export type UpgradeAnswer =
  | { readonly refuse: HttpReply }
  | { readonly accept: SocketHandlers; readonly watch?: SocketWatch | undefined };

/** Answers requests. A rejected promise becomes a bare 500: answer errors yourself. */
export type HttpHandler = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

/** Answers WebSocket upgrades (GET with `Upgrade: websocket`). */
export type UpgradeHandler = (request: HttpRequest) => UpgradeAnswer | Promise<UpgradeAnswer>;

export interface HttpServerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly onRequest: HttpHandler;
  readonly onUpgrade: UpgradeHandler;
  /** Largest WebSocket message taken from a client; a larger one closes the socket. Default 64 KiB. */
  readonly maxMessageBytes?: number;
  /** Most bytes queued for a slow WebSocket reader. Default 1 MiB. */
  readonly maxBufferedBytes?: number;
  /** WebSocket ping period. Default 25,000 ms; a peer that answers nothing for two periods is closed. */
  readonly pingMs?: number;
  /** Told what the source of a reply threw. It ends that reply only: a bare 500, or half a reply that is cut off. */
  readonly onFault?: (error: unknown) => void;
}

/** A listening server. */
export interface HttpServer {
  readonly adapter: 'own' | 'uws' | 'node';
  readonly port: number;
  /**
   * Stops accepting, lets running requests finish (at most `graceMs`), closes WebSockets with 1001, then resolves. With
   * `lingerMs` what comes over connections that are open is answered that long before, with `connection: close`, unless
   * all have ended sooner: a proxy that keeps them may send a request at any moment, and may not repeat one that
   * changes something.
   */
  close(graceMs: number, lingerMs?: number): Promise<void>;
}
