/**
 * The actor of one user of the notification service in this process (kind `notify/user`, key: user id). It knows the
 * user's sockets here and pushes to them what arrives, encoded once; what a user has, has read and has muted is in
 * storage. So it may be awake in every process: what all of them share, the number of sockets, is counted elsewhere
 * (connection-quota.ts).
 *
 *   asleep -- call, socket or arrival --> awake -- no socket and idle --> asleep
 */
import { Refusal } from '../../proto/errors.ts';
import {
  addMute,
  listMutes,
  listNotifications,
  MAX_MUTES,
  markAllRead,
  markRead,
  removeMute,
  unreadCount,
} from '../../proto/notify/endpoints.ts';
import { removeMute as deleteMute, addMute as insertMute, listMutes as mutesOf } from '../../storage/notify/mutes.ts';
import {
  countUnread,
  type NotificationRow,
  listNotifications as notificationsOf,
  markAllRead as setAllRead,
  markRead as setRead,
} from '../../storage/notify/notifications.ts';
import { type Cancel, dispatch, type EntityContext } from '../../supervision/index.ts';
import { type CallMessage, handleCall, handler, handlers } from '../service/dispatch.ts';
import type { AnsweringKind, EntitiesPart } from '../service/parts.ts';
import type { CurrentLimit } from '../service/user-limits.ts';
import type { SocketMessage, SocketNews, SocketRef } from './connection.ts';
import { type NodeConnections, newest, type QuotaMessage } from './connection-quota.ts';
import type { Frame } from './delivery-cursor.ts';
import type { NotifyDeps } from './deps.ts';
import type { PeerHints } from './peer-hints.ts';
import { muteView, notificationView } from './views.ts';

/** What the actor understands. */
export type NotifyUserMessage =
  | CallMessage
  | NodeConnections
  | SocketMessage
  /** These were stored, in order; the user's last one before them was `after`. */
  | { readonly type: 'arrived'; readonly after: number; readonly rows: readonly NotificationRow[] }
  /** Something was stored earlier of which nobody may have been told. */
  | { readonly type: 'look' }
  /** The user has read this one, or all: null. */
  | { readonly type: 'read'; readonly id: number | null };

interface NotifyUserState {
  readonly userId: string;
  /** At most so many as `limit` said when they came. */
  readonly sockets: SocketRef[];
  /** When each of them said last that it is there, in whole seconds of performance.now. */
  readonly seenAt: number[];
  /** When each was opened, unix ms. */
  readonly opened: number[];
  /** The limit as it was changed last, of those that sockets came with. */
  limit: CurrentLimit;
  /** When the sockets were told of last, in ms of performance.now. */
  saidAt: number;
  /** Ends the wait for the word that they were heard of. */
  unheard: Cancel | undefined;
}

/** A socket that has not attached for this long is gone: its process ended, or its last message was lost. */
const GONE_AFTER_SECONDS = 70;
/**
 * How often they are told of at least, so that a message that is lost costs time only; a little less than the sockets'
 * own 20 s.
 */
const SAY_EVERY_MS = 15_000;
/** The same while nobody answers: whoever counts may have died. */
const UNHEARD_MS = 2000;
const NEVER = Number.NEGATIVE_INFINITY;
const SLEEP_AFTER_MS = 60_000;
const FULL = {
  type: 'close',
  code: 1008,
  reason: 'connection limit reached: close one, or the operator raises it by troupe users limits NAME',
} as const;

/** Counts the sockets of users over all processes. */
type Quota = EntitiesPart<QuotaMessage>;

/**
 * The kind, for the service's tree. `others`: the processes that are told of what was read here. `quota`: undefined
 * when no other process has sockets.
 */
export function userKind(
  { db, clock, userLimits }: NotifyDeps,
  others: PeerHints,
  quota?: Quota,
): AnsweringKind<NotifyUserMessage, NotifyUserState> {
  const ok = { status: 'ok' } as const;
  const readHereAndElsewhere = (state: NotifyUserState, id: number | null) => {
    tellAll(state, { type: 'read', id });
    others.tellRead(state.userId, id);
    return ok;
  };

  const table = handlers<NotifyUserState>(
    handler(listNotifications, async ({ userId }: NotifyUserState, call) =>
      (await notificationsOf(db, userId, call.query)).map(notificationView),
    ),
    handler(unreadCount, async ({ userId }: NotifyUserState) => ({ count: await countUnread(db, userId) })),
    handler(markRead, async (state: NotifyUserState, call) => {
      if (!(await setRead(db, state.userId, call.params.id)))
        throw new Refusal('not_found', { message: 'You have no notification with this id.' });
      return readHereAndElsewhere(state, call.params.id);
    }),
    handler(markAllRead, async (state: NotifyUserState) => {
      await setAllRead(db, state.userId);
      return readHereAndElsewhere(state, null);
    }),
    handler(listMutes, async ({ userId }: NotifyUserState) => (await mutesOf(db, userId)).map(muteView)),
    handler(addMute, async ({ userId }: NotifyUserState, call) => {
      if (!(await insertMute(db, userId, call.body, MAX_MUTES)))
        throw new Refusal('limit_reached', {
          message: `You have ${MAX_MUTES} mutes, which is the limit: remove one first.`,
        });
      return ok;
    }),
    handler(removeMute, async ({ userId }: NotifyUserState, call) => {
      await deleteMute(db, userId, call.body);
      return ok;
    }),
  );

  return {
    kind: 'notify/user',
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: (userId) => ({
      userId,
      sockets: [],
      seenAt: [],
      opened: [],
      limit: { most: userLimits.notification_sockets, changedAt: 0 },
      saidAt: NEVER,
      unheard: undefined,
    }),
    handle: (state, message, ctx) => {
      const before = state.sockets.length;
      switch (message.type) {
        case 'call': {
          const answered = handleCall(table, state, message);
          return answered === undefined ? state : answered.then(() => state);
        }
        case 'attach':
          attach(state, message, clock.now());
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
        case 'read':
          tellAll(state, message);
          break;
        case 'counted':
          state.unheard?.();
          ctx.watch(message.by, () => ({ type: 'say' }));
          break;
        case 'keep':
          // The newest are the last.
          while (state.sockets.length > message.most) {
            const at = state.sockets.length - 1;
            const last = state.sockets[at];
            if (last !== undefined) dispatch(last, FULL);
            drop(state, at);
          }
          break;
        case 'say':
          state.saidAt = NEVER;
          break;
      }
      if (quota !== undefined) say(state, before, ctx, quota);
      ctx.keepAwake(state.sockets.length > 0);
      // Most arrivals are for people who are not there.
      if (state.sockets.length === 0) ctx.sleep();
      return state;
    },
  };
}

function attach(
  state: NotifyUserState,
  { socket, limit }: Extract<SocketMessage, { type: 'attach' }>,
  at: number,
): void {
  const { sockets, seenAt, opened } = state;
  const now = Math.floor(performance.now() / 1000);
  const known = sockets.indexOf(socket);
  if (known >= 0) {
    seenAt[known] = now;
    return;
  }
  state.limit = newest(state.limit, limit);
  if (sockets.length >= limit.most)
    drop(
      state,
      seenAt.findIndex((seen) => now - seen > GONE_AFTER_SECONDS),
    );
  if (sockets.length >= limit.most) {
    dispatch(socket, FULL);
    return;
  }
  sockets.push(socket);
  seenAt.push(now);
  opened.push(at);
  dispatch(socket, { type: 'news', news: { type: 'attached' } });
}

/** Forgets the socket at that place; -1 is none. */
function drop({ sockets, seenAt, opened }: NotifyUserState, at: number): void {
  if (at < 0) return;
  for (const list of [sockets, seenAt, opened]) list.splice(at, 1);
}

/** Tells whoever counts, when the sockets are not those that were told of, and from time to time. */
function say(state: NotifyUserState, before: number, ctx: EntityContext<NotifyUserMessage>, quota: Quota): void {
  const { userId, sockets, opened } = state;
  const now = performance.now();
  const isDue = sockets.length > 0 && now - state.saidAt >= SAY_EVERY_MS;
  if (!isDue && sockets.length === before) return;
  state.saidAt = now;
  state.unheard?.();
  state.unheard = sockets.length > 0 ? ctx.after(UNHEARD_MS, { type: 'say' }) : undefined;
  quota.tell(userId, { type: 'present', node: ctx.self, opened: [...opened], limit: state.limit });
}

function tellAll({ sockets }: NotifyUserState, news: SocketNews): void {
  const message = { type: 'news', news } as const;
  for (const socket of sockets) dispatch(socket, message);
}

function framesOf(rows: readonly NotificationRow[]): Frame[] {
  return rows.map((row) => ({ id: row.id, text: JSON.stringify(notificationView(row)) }));
}
