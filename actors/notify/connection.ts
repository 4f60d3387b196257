/** One socket of `/ws/notifications`: what its user's actor tells it goes through a DeliveryCursor to the client. */
import { BatchLoader } from '../../lib/batching.ts';
import type { NotificationSocketEvent } from '../../proto/notify/endpoints.ts';
import type { Socket } from '../../proto/ports/http.ts';
import type { Db } from '../../storage/db.ts';
import { type After, headsOf, type NotificationRow, notificationsAfter } from '../../storage/notify/notifications.ts';
import { dispatch, type Ref } from '../../supervision/index.ts';
import type { Connection, ConnectionMessage } from '../service/connection.ts';
import type { EntitiesPart } from '../service/parts.ts';
import type { CurrentLimit } from '../service/user-limits.ts';
import { DeliveryCursor, type DeliveryPorts, type Frame } from './delivery-cursor.ts';
import type { NotifyDeps } from './deps.ts';
import { notificationView } from './views.ts';

/** What the user's actor tells its sockets. */
export type SocketNews =
  /** It knows the socket from now on. */
  | { readonly type: 'attached' }
  /** These were stored; the one before them was `after`. */
  | { readonly type: 'arrived'; readonly after: number; readonly frames: readonly Frame[] }
  /** Something was stored: which, storage knows. */
  | { readonly type: 'look' }
  /** The user has read this one, or all: null. */
  | { readonly type: 'read'; readonly id: number | null };

/** A socket as the user's actor knows it. */
export type SocketRef = Ref<ConnectionMessage<SocketNews>>;

/** What a socket tells its user's actor. */
export type SocketMessage =
  /** Repeated every 20 s while the socket lives. `limit`: how many the user might have when it came. */
  | { readonly type: 'attach'; readonly socket: SocketRef; readonly limit: CurrentLimit }
  | { readonly type: 'detached'; readonly socket: SocketRef };

/** What all sockets of a process share. */
export interface SocketParts {
  readonly deps: NotifyDeps;
  readonly reader: Reader;
  /** Sockets of this process, by user. */
  readonly present: Map<string, number>;
  readonly users: EntitiesPart<SocketMessage>;
}

const TOO_SLOW = { type: 'close', code: 1013, reason: 'too slow' } as const;
const DEFAULT_SLOW_MS = 30_000;
/** Pause after a read that failed: up to this many ms, at random, so that many clients do not come back at once. */
const RETRY_MS = 3000;

/** How messages are written: `1` as plain notifications, `2` as events with a type, reads among them. */
type SocketVersion = '1' | '2';

/** What is known of a socket when it comes. */
interface NewSocket {
  readonly userId: string;
  /** How many its user may have. */
  readonly limit: CurrentLimit;
  /** It has all notifications up to this id. */
  readonly since: number;
  readonly version: SocketVersion;
}

/** The socket of a user. */
export function notificationConnection(parts: SocketParts, socket: NewSocket): Connection<SocketNews> {
  return new NotificationConnection(parts, socket);
}

class NotificationConnection implements Connection<SocketNews>, DeliveryPorts {
  readonly #parts: SocketParts;
  readonly #userId: string;
  readonly #limit: CurrentLimit;
  readonly #version: SocketVersion;
  /** Undefined once it is over. */
  #cursor: DeliveryCursor | undefined;
  #socket: Socket | undefined;
  #self: SocketRef | undefined;
  #slow: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;

  constructor(parts: SocketParts, { userId, limit, since, version }: NewSocket) {
    this.#parts = parts;
    this.#userId = userId;
    this.#limit = limit;
    this.#version = version;
    this.#cursor = new DeliveryCursor(since, this);
  }

  open(socket: Socket, self: SocketRef): void {
    this.#socket = socket;
    this.#self = self;
    this.#count(1);
  }

  attach(self: SocketRef): void {
    this.#parts.users.tell(this.#userId, { type: 'attach', socket: self, limit: this.#limit });
    // A message to us may have been lost: look from time to time.
    if (this.#cursor?.isAttached) this.#cursor.look();
  }

  news(news: SocketNews): void {
    if (news.type === 'arrived') this.#cursor?.arrived(news.after, news.frames);
    else if (news.type === 'look') this.#cursor?.look();
    else if (news.type === 'read') this.#tellRead(news.id);
    else this.#cursor?.attached();
  }

  drain(): void {
    clearTimeout(this.#slow);
    this.#slow = undefined;
    this.#cursor?.drained();
  }

  closed(): void {
    this.ended();
  }

  ended(): void {
    if (this.#cursor === undefined) return;
    this.#cursor = undefined;
    if (this.#self === undefined) return;
    this.#count(-1);
    clearTimeout(this.#slow);
    clearTimeout(this.#retry);
    this.#parts.users.tell(this.#userId, { type: 'detached', socket: this.#self });
  }

  send(frames: readonly Frame[]): { readonly taken: number; readonly isReady: boolean } {
    const { numbers, slowMs = DEFAULT_SLOW_MS } = this.#parts.deps;
    const written = this.#version === '2' ? frames.map(asEvent) : frames;
    const result = this.#socket === undefined ? nothingSent : sendAll(this.#socket, written);
    numbers.pushed += result.taken;
    if (!result.isReady && this.#slow === undefined) this.#slow = setTimeout(() => this.#tooSlow(), slowMs);
    return result;
  }

  read(above: number): void {
    void this.#read(above);
  }

  async #read(above: number): Promise<void> {
    const { deps, reader } = this.#parts;
    const userId = this.#userId;
    try {
      const rows = await reader.page({ userId, since: above });
      // An id that is still to come must not keep those before it away.
      if (rows.length === 0 && above > 0) this.#cursor?.endsAt(await reader.head(userId));
      const frames = rows.map((row): Frame => ({ id: row.id, text: JSON.stringify(notificationView(row)) }));
      this.#cursor?.page(frames, rows.length < PAGE);
    } catch (error) {
      if (this.#cursor === undefined) return;
      deps.log.debug({ userId, err: error }, 'notifications could not be read for a socket');
      this.#cursor.failed();
      this.#retry = setTimeout(() => this.#cursor?.look(), RETRY_MS * (0.2 + 0.8 * Math.random()));
    }
  }

  /** At most once: a reader that is slow, or reads what was stored before, is told nothing. */
  #tellRead(id: number | null): void {
    if (this.#version !== '2' || this.#slow !== undefined) return;
    const event: NotificationSocketEvent = { type: 'read', id };
    this.#socket?.send(JSON.stringify(event));
  }

  #count(change: 1 | -1): void {
    const { deps, present } = this.#parts;
    deps.numbers.sockets += change;
    const count = (present.get(this.#userId) ?? 0) + change;
    if (count === 0) present.delete(this.#userId);
    else present.set(this.#userId, count);
  }

  #tooSlow(): void {
    if (this.#self !== undefined) dispatch(this.#self, TOO_SLOW);
  }
}

/** The frame of a notification as an event. Its text is one object, made once for all sockets. */
function asEvent({ id, text }: Frame): Frame {
  return { id, text: `{"type":"notification",${text.slice(1)}` };
}

const nothingSent = { taken: 0, isReady: false };

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

/** Notifications of one page. */
export const PAGE = 100;
/** Pages in one statement: of the longest notifications there are, they take some ten megabytes. */
const PAGES_AT_ONCE = 32;
const HEADS_AT_ONCE = 500;

interface Reader {
  /** The user's highest id, 0 without notifications. Rejects with StorageError. */
  head(userId: string): Promise<number>;
  /** The first PAGE of a user's notifications above an id; fewer when there are no more. Rejects with StorageError. */
  page(after: After): Promise<readonly NotificationRow[]>;
}

/** Makes the reader of a process. */
export function notificationReader(db: Db): Reader {
  const heads = new BatchLoader<string, number>((userIds) => headsOf(db, userIds), { most: HEADS_AT_ONCE, atOnce: 2 });
  const pages = new BatchLoader<After, readonly NotificationRow[]>((wanted) => notificationsAfter(db, wanted, PAGE), {
    most: PAGES_AT_ONCE,
    atOnce: 2,
  });
  return { head: (userId) => heads.load(userId), page: (after) => pages.load(after) };
}
