/** One socket of `/ws/notifications`: what its user's actor tells it goes through a Follower to the client. */
import type { Socket } from '../../proto/http.ts';
import { dispatch, type Ref } from '../../supervision/index.ts';
import type { Connection, StreamMessage } from '../streams.ts';
import type { NotifyDeps } from './deps.ts';
import { Follower, type Frame } from './follower.ts';
import { PAGE, type Reader } from './reader.ts';
import { notificationView } from './views.ts';

/** What the user's actor tells its sockets. */
export type SocketNews =
  /** It knows the socket from now on. */
  | { readonly type: 'attached' }
  /** These were stored; the one before them was `after`. */
  | { readonly type: 'arrived'; readonly after: number; readonly frames: readonly Frame[] }
  /** Something was stored: which, storage knows. */
  | { readonly type: 'look' };

/** A socket as the user's actor knows it. */
export type SocketRef = Ref<StreamMessage<SocketNews>>;

const TOO_SLOW = { type: 'close', code: 1013, reason: 'too slow' } as const;
const DEFAULT_SLOW_MS = 30_000;
/** Pause after a read that failed: up to this many ms, at random, so that many clients do not come back at once. */
const RETRY_MS = 3000;

/** The socket of a user that has all up to the id `since`. `attach` says to the user's actor that it is there. */
export function notificationConnection(
  deps: NotifyDeps,
  reader: Reader,
  user: { readonly userId: string; readonly since: number },
  attach: (self: SocketRef) => void,
): Connection<SocketNews> {
  const { log, numbers, slowMs = DEFAULT_SLOW_MS } = deps;
  const { userId, since } = user;
  let follower: Follower | undefined;
  let slow: NodeJS.Timeout | undefined;
  let retry: NodeJS.Timeout | undefined;
  let isOpen = false;
  let attached = false;

  const end = () => {
    if (isOpen) numbers.sockets -= 1;
    isOpen = false;
    follower = undefined;
    clearTimeout(slow);
    clearTimeout(retry);
  };

  const read = async (above: number): Promise<void> => {
    try {
      const rows = await reader.page({ userId, since: above });
      // An id that is still to come must not keep those before it away.
      if (rows.length === 0 && above > 0) follower?.endsAt(await reader.head(userId));
      const frames = rows.map((row): Frame => ({ id: row.id, text: JSON.stringify(notificationView(row)) }));
      follower?.page(frames, rows.length < PAGE);
    } catch (error) {
      if (follower === undefined) return;
      log.debug({ userId, err: error }, 'notifications could not be read for a socket');
      follower.failed();
      retry = setTimeout(() => follower?.look(), RETRY_MS * (0.2 + 0.8 * Math.random()));
    }
  };

  return {
    open(socket: Socket, self: SocketRef, signal: AbortSignal) {
      isOpen = true;
      numbers.sockets += 1;
      signal.addEventListener('abort', end, { once: true });
      follower = new Follower(since, {
        read: (above) => void read(above),
        send: (frames) => {
          const result = sendAll(socket, frames);
          numbers.pushed += result.taken;
          if (!result.isReady && slow === undefined) slow = setTimeout(() => dispatch(self, TOO_SLOW), slowMs);
          return result;
        },
      });
    },
    attach(self) {
      attach(self);
      // A message to us may have been lost: look from time to time.
      if (attached) follower?.look();
    },
    news(news) {
      if (news.type === 'arrived') follower?.arrived(news.after, news.frames);
      else if (news.type === 'look') follower?.look();
      else {
        attached = true;
        follower?.attached();
      }
    },
    drain() {
      clearTimeout(slow);
      slow = undefined;
      follower?.drained();
    },
    closed: end,
  };
}

/** Sends until the socket asks for a pause. Several frames leave together. */
function sendAll(socket: Socket, frames: readonly Frame[]): { taken: number; isReady: boolean } {
  const [only] = frames;
  if (only !== undefined && frames.length === 1) return { taken: 1, isReady: socket.send(only.text) };
  let taken = 0;
  let isReady = true;
  while (isReady && taken < frames.length) {
    isReady = socket.batch(() => {
      for (let frame = frames[taken]; frame !== undefined; frame = frames[taken]) {
        taken += 1;
        if (!socket.send(frame.text)) return;
      }
    });
  }
  return { taken, isReady };
}
