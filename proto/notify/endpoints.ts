/** The notification service's endpoints and views. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { wholeNumber } from '../whole-number.ts';
import { MAX_CATEGORY_LENGTH } from './fields.ts';
import { mailEndpoints } from './mail.ts';
import { webhookEndpoints } from './webhooks.ts';

/** Longest scope, in characters: of notifications as of mutes. */
export const MAX_SCOPE_LENGTH = 256;
const DEFAULT_PAGE = 20;
const MAX_PAGE = 100;
/** Mutes that a user may have: far above what anybody needs. */
export const MAX_MUTES = 1000;

/** A notification, as its user gets it. */
export const notificationSchema = z.object({
  id: z.int(),
  user_id: z.string(),
  title: z.string(),
  message: z.string(),
  link: z.string(),
  category: z.string(),
  scope: z.string(),
  read: z.boolean(),
  created_at: z.iso.datetime(),
});
export type NotificationView = z.output<typeof notificationSchema>;

/** A message of `/ws/notifications?v=2`. */
const socketEventSchema = z.discriminatedUnion('type', [
  notificationSchema.extend({ type: z.literal('notification') }),
  /** Was marked as read, here or elsewhere; `id` null: all of them were. */
  z.object({ type: z.literal('read'), id: z.int().nullable() }),
]);
export type NotificationSocketEvent = z.output<typeof socketEventSchema>;

/** What a user does not want to be told. */
export const muteSchema = z.object({
  id: z.int(),
  user_id: z.string(),
  category: z.string(),
  scope: z.string(),
  created_at: z.iso.datetime(),
});
export type MuteView = z.output<typeof muteSchema>;

const muted = (longest: number) =>
  z
    .string()
    .max(longest, `must be at most ${longest} characters`)
    .refine((text) => !text.includes('\0'), 'must not contain NUL');

/** What is muted. */
const muteBody = z.object({ category: muted(MAX_CATEGORY_LENGTH), scope: muted(MAX_SCOPE_LENGTH) });

const common = { service: 'notify', access: 'session', actor: { kind: 'notify/user', key: 'caller' } } as const;
const ok = z.object({ status: z.literal('ok') });

export const listNotifications = endpoint('listNotifications', 'GET /api/notifications', {
  ...common,
  summary: 'Your notifications, newest first',
  query: z.object({
    limit: wholeNumber.transform((limit) => Math.min(limit, MAX_PAGE)).default(DEFAULT_PAGE),
    offset: wholeNumber.default(0),
    before: wholeNumber.optional().describe('only those with a lower id: a page stays the same while new ones come'),
    unread: z
      .enum(['0', '1'])
      .transform((given) => given === '1')
      .default(false),
    category: z.string().max(MAX_CATEGORY_LENGTH).optional(),
  }),
  reply: z.array(notificationSchema),
});

export const unreadCount = endpoint('unreadCount', 'GET /api/notifications/unread-count', {
  ...common,
  summary: 'How many you have not read',
  reply: z.object({ count: z.int() }),
});

export const markRead = endpoint('markRead', 'POST /api/notifications/{id}/read', {
  ...common,
  summary: 'Mark one as read',
  rateLimit: 'exempt',
  params: z.object({
    id: z
      .string()
      .regex(/^[1-9][0-9]{0,14}$/)
      .transform(Number),
  }),
  reply: ok,
  refuses: ['not_found'],
});

export const markAllRead = endpoint('markAllRead', 'POST /api/notifications/read-all', {
  ...common,
  summary: 'Mark all as read',
  rateLimit: 'exempt',
  reply: ok,
});

export const listMutes = endpoint('listMutes', 'GET /api/notifications/mutes', {
  ...common,
  summary: 'What you are not told',
  reply: z.array(muteSchema),
});

export const addMute = endpoint('addMute', 'PUT /api/notifications/mutes', {
  ...common,
  summary: 'Mute a category in one scope, or, with an empty scope, the whole category',
  body: muteBody,
  reply: ok,
  refuses: ['limit_reached'],
});

export const removeMute = endpoint('removeMute', 'DELETE /api/notifications/mutes', {
  ...common,
  rateLimit: 'removal',
  summary: 'Unmute; what is not muted stays so',
  body: muteBody,
  reply: ok,
});

export const notificationSocket = endpoint('notificationSocket', 'GET /ws/notifications', {
  ...common,
  summary:
    'Notifications as they come; with `since`, first those with a higher id. With `v=2` also what was read elsewhere',
  query: z.object({ since: wholeNumber.optional(), v: z.enum(['1', '2']).default('1') }),
  reply: z.union([notificationSchema, socketEventSchema]),
  socket: true,
  ownPages: true,
});

/** All endpoints of the service. */
export const notifyEndpoints = [
  listNotifications,
  unreadCount,
  markRead,
  markAllRead,
  listMutes,
  addMute,
  removeMute,
  notificationSocket,
  ...webhookEndpoints,
  ...mailEndpoints,
] as const;
