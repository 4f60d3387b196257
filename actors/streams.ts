/**
 * What connections are told, and the frame they share: the actor of a connection hears control messages (open, close, the
 * token's end), while bytes go past it, straight between the socket and what it shows.
 */
import type { Socket, SocketHandlers } from '../proto/http.ts';
import {
  ActorError,
  type AnyRef,
  type Context,
  dispatch,
  type Ref,
  type SpawnOptions,
  spawn,
  stop,
} from '../supervision/index.ts';

/** What the actor of a connection understands; `News` is what only its kind does. */
export type StreamMessage<News = never> =
  /** Close the socket, with a close code (RFC 6455, section 7.4) that says whether to come back: 1012 and 1013 do. */
  | { readonly type: 'close'; readonly code: number; readonly reason: string }
  /** The socket is gone. */
  | { readonly type: 'gone' }
  /** Send this text. */
  | { readonly type: 'send'; readonly text: string }
  /** Time to say again that we are here. */
  | { readonly type: 'attach' }
  /** For the connection itself. */
  | { readonly type: 'news'; readonly news: News };

/** How a stream ends: a close code of docs/streams.md and its reason. */
export interface StreamEnd {
  readonly code: number;
  readonly reason: string;
}

/** What one kind of connection does with its socket. All of it ends when `signal` aborts. */
export interface Connection<News = never> {
  /** The socket is open; `self` is this connection's actor. */
  open(socket: Socket, self: Ref<StreamMessage<News>>, signal: AbortSignal): void;
  binary?(data: Uint8Array): void;
  text?(data: string): void;
  drain?(): void;
  /** The socket is gone, whoever closed it; 1006 when the connection was lost. */
  closed?(code: number): void;
  /** Asked at the start and every `attachEveryMs`, for connections that subscribe to an actor. */
  attach?(self: Ref<StreamMessage<News>>): void;
  news?(news: News): void;
}

/** Unasked text or binary frames: closed with 1003, "cannot accept" (RFC 6455, section 7.4.1). */
const UNSUPPORTED = 1003;
const POLICY = 1008;
const RESTART = 1012;
/** Most bytes of a reason in a close frame (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;

/** How often a subscription is repeated, so that it outlives a restart of the actor it is with. */
const ATTACH_EVERY_MS = 20_000;
/** setTimeout's largest delay. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** Makes the handlers of a socket: its actor is spawned under `parent` when the socket opens. */
export function connect<News = never>(
  parent: AnyRef,
  kind: string,
  expiresInMs: number,
  connection: Connection<News>,
): SocketHandlers {
  let socket: Socket | undefined;
  let self: Ref<StreamMessage<News>> | undefined;
  const refuse = (reason: string) => socket?.close(UNSUPPORTED, reason);

  return {
    open: (opened) => {
      socket = opened;
      const handle = (
        _state: undefined,
        message: StreamMessage<News>,
        ctx: Context<StreamMessage<News>>,
      ): undefined => {
        switch (message.type) {
          case 'close':
            opened.close(message.code, clip(message.reason));
            stop(ctx.self);
            return;
          case 'gone':
            stop(ctx.self);
            return;
          case 'send':
            opened.send(message.text);
            return;
          case 'attach':
            connection.attach?.(ctx.self);
            return;
          case 'news':
            connection.news?.(message.news);
            return;
        }
      };
      const options: SpawnOptions<undefined, StreamMessage<News>> = {
        kind,
        initialStateFunc: (ctx) => {
          // A token that outlasts every timer is looked at again when its client comes back.
          if (expiresInMs <= MAX_DELAY_MS)
            ctx.after(Math.max(0, expiresInMs), { type: 'close', code: POLICY, reason: 'token expired' });
          if (connection.attach !== undefined) ctx.every(ATTACH_EVERY_MS, { type: 'attach' });
          connection.open(opened, ctx.self, ctx.signal);
          connection.attach?.(ctx.self);
          return undefined;
        },
        // The service stops, or the actor failed: the client should come back.
        afterStop: () => opened.close(RESTART, 'service restarts'),
      };
      try {
        self = spawn(parent, handle, options);
      } catch (error) {
        // The service began to stop while the upgrade was under way.
        if (!(error instanceof ActorError)) throw error;
        opened.close(RESTART, 'service restarts');
      }
    },
    message: (frame) => {
      if ('text' in frame) {
        if (connection.text === undefined) refuse('this stream takes no text frames');
        else connection.text(frame.text);
      } else if (connection.binary === undefined) refuse('this stream takes no binary frames');
      else connection.binary(frame.binary);
    },
    drain: () => connection.drain?.(),
    close: (code) => {
      connection.closed?.(code);
      if (self !== undefined) dispatch(self, { type: 'gone' });
    },
  };
}

/** As much of a reason as fits into a close frame, in whole characters. */
function clip(reason: string): string {
  const bytes = Buffer.from(reason, 'utf8');
  if (bytes.byteLength <= MAX_REASON_BYTES) return reason;
  return bytes
    .subarray(0, MAX_REASON_BYTES)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
}
