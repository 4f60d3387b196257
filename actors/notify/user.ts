/**
 * The actor of one user of the notification service (kind `notify/user`, key: user id). It knows the user's sockets and pushes to them what
 * arrives, encoded once; what a user has, has read and has muted is in storage.
 *
 *   asleep -- call, socket or arrival --> awake -- no socket and idle --> asleep
 */

import { Refusal } from '../../proto/errors.ts';
import {
  addMute,
  listMutes,
  listNotifications,
  MAX_MUTES,
  MAX_SOCKETS,
  markAllRead,
  markRead,
  removeMute,
  unreadCount,
} from '../../proto/notify.ts';
import { removeMute as deleteMute, addMute as insertMute, listMutes as mutesOf } from '../../storage/notify/mutes.ts';
import {
  countUnread,
  type NotificationRow,
  listNotifications as notificationsOf,
  markAllRead as setAllRead,
  markRead as setRead,
} from '../../storage/notify/notifications.ts';
import { dispatch, type EntityKind } from '../../supervision/index.ts';
import { answer, type CallMessage, handlers, on } from '../door.ts';
import type { SocketNews, SocketRef } from './connection.ts';
import type { NotifyDeps } from './deps.ts';
import type { Frame } from './follower.ts';
import { muteView, notificationView } from './views.ts';

/** What the actor understands. */
export type UserMessage =
  | CallMessage
  /** Repeated every 20 s while the socket lives. */
  | { readonly type: 'attach'; readonly socket: SocketRef }
  | { readonly type: 'detached'; readonly socket: SocketRef }
  /** These were stored, in order; the user's last one before them was `after`. */
  | { readonly type: 'arrived'; readonly after: number; readonly rows: readonly NotificationRow[] }
  /** Something was stored earlier of which nobody may have been told. */
  | { readonly type: 'look' };

interface UserState {
  readonly userId: string;
  /** At most MAX_SOCKETS. */
  readonly sockets: SocketRef[];
  /** When each of them said last that it is there, in whole seconds of performance.now. */
  readonly seenAt: number[];
}

/** A socket that has not said for this long that it is there is gone: its process ended, or its farewell was lost. */
const GONE_AFTER_SECONDS = 70;
const SLEEP_AFTER_MS = 60_000;
const POLICY = 1008;

/** The kind, for the service's tree. */
export function userKind({ db }: NotifyDeps): EntityKind<UserMessage, UserState> {
  const ok = { status: 'ok' } as const;

  const table = handlers<UserState>(
    on(listNotifications, async ({ userId }: UserState, call) =>
      (await notificationsOf(db, userId, call.query)).map(notificationView),
    ),
    on(unreadCount, async ({ userId }: UserState) => ({ count: await countUnread(db, userId) })),
    on(markRead, async ({ userId }: UserState, call) => {
      if (!(await setRead(db, userId, call.params.id)))
        throw new Refusal('not_found', { message: 'You have no notification with this id.' });
      return ok;
    }),
    on(markAllRead, async ({ userId }: UserState) => {
      await setAllRead(db, userId);
      return ok;
    }),
    on(listMutes, async ({ userId }: UserState) => (await mutesOf(db, userId)).map(muteView)),
    on(addMute, async ({ userId }: UserState, call) => {
      if (!(await insertMute(db, userId, call.body, MAX_MUTES)))
        throw new Refusal('limit_reached', {
          message: `You have ${MAX_MUTES} mutes, which is the limit: remove one first.`,
        });
      return ok;
    }),
    on(removeMute, async ({ userId }: UserState, call) => {
      await deleteMute(db, userId, call.body);
      return ok;
    }),
  );

  return {
    kind: 'notify/user',
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: (userId) => ({ userId, sockets: [], seenAt: [] }),
    handle: (state, message, ctx) => {
      switch (message.type) {
        case 'call': {
          const answered = answer(table, state, message);
          return answered === undefined ? state : answered.then(() => state);
        }
        case 'attach':
          attach(state, message.socket);
          break;
        case 'detached':
          drop(state, state.sockets.indexOf(message.socket));
          break;
        case 'arrived':
          if (state.sockets.length > 0)
            tellAll(state, { type: 'arrived', after: message.after, frames: framesOf(message.rows) });
          break;
        case 'look':
          tellAll(state, { type: 'look' });
          break;
      }
      ctx.keepAwake(state.sockets.length > 0);
      // Most arrivals are for people who are not there.
      if (state.sockets.length === 0) ctx.sleep();
      return state;
    },
  };
}

function attach(state: UserState, socket: SocketRef): void {
  const { sockets, seenAt } = state;
  const now = Math.floor(performance.now() / 1000);
  const known = sockets.indexOf(socket);
  if (known >= 0) {
    seenAt[known] = now;
    return;
  }
  if (sockets.length >= MAX_SOCKETS)
    drop(
      state,
      seenAt.findIndex((seen) => now - seen > GONE_AFTER_SECONDS),
    );
  if (sockets.length >= MAX_SOCKETS) {
    dispatch(socket, { type: 'close', code: POLICY, reason: 'connection limit reached' });
    return;
  }
  sockets.push(socket);
  seenAt.push(now);
  dispatch(socket, { type: 'news', news: { type: 'attached' } });
}

/** Forgets the socket at that place; -1 is none. */
function drop({ sockets, seenAt }: UserState, at: number): void {
  if (at < 0) return;
  sockets.splice(at, 1);
  seenAt.splice(at, 1);
}

function tellAll({ sockets }: UserState, news: SocketNews): void {
  const message = { type: 'news', news } as const;
  for (const socket of sockets) dispatch(socket, message);
}

function framesOf(rows: readonly NotificationRow[]): Frame[] {
  return rows.map((row) => ({ id: row.id, text: JSON.stringify(notificationView(row)) }));
}
