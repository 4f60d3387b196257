/** What the administrator does over HTTP: users with their sessions, the audit trail, nodes and routes. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { cacheModeSchema } from '../gateway/cache-mode.ts';
import { newRouteSchema } from '../gateway/routes.ts';
import { idSchema } from '../ids.ts';
import { limitChangesSchema, ownLimitsSchema } from '../user-limits.ts';
import { wholeNumber } from '../whole-number.ts';

const common = { service: 'auth', access: 'admin', actor: { kind: 'auth/admin', key: 'none' } } as const;
const ofUser = { ...common, params: z.object({ id: idSchema }) } as const;
const MAX_PAGE = 500;
const limit = wholeNumber.transform((given) => Math.min(given, MAX_PAGE)).default(100);
const flag = (given: boolean) =>
  z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .default(given);

/** `leaving`: is being removed; the platform goes on with it. */
const userStateSchema = z.enum(['active', 'disabled', 'leaving']);

const userSchema = z.object({
  id: z.string(),
  username: z.string(),
  display_name: z.string(),
  is_admin: z.boolean(),
  state: userStateSchema,
  created_at: z.iso.datetime(),
  disabled_at: z.iso.datetime().nullable(),
  /** MiB that their images may hold in the platform's own registry; null: as many as the platform says. */
  registry_limit_mb: z.int().nullable(),
  /** How many things of a kind they may have; null: as many as all. Older nodes leave it out. */
  limits: ownLimitsSchema.optional(),
});
export type AdminUserView = z.output<typeof userSchema>;

export const adminListUsers = endpoint('adminListUsers', 'GET /api/admin/users', {
  ...common,
  summary: 'Users by name; the next page begins `after` the last name of this one',
  query: z.object({ prefix: z.string().max(64).default(''), after: z.string().max(64).default(''), limit }),
  reply: z.array(userSchema),
});

export const adminAddUser = endpoint('adminAddUser', 'POST /api/admin/users', {
  ...common,
  idempotent: 'key',
  summary: 'Add a user. Without a password one is made, and shown only now',
  body: z.strictObject({ username: z.string().max(256), password: z.string().max(1024).optional() }),
  reply: z.object({ id: z.string(), username: z.string(), password: z.string().nullable() }),
  status: 201,
  refuses: ['conflict'],
});

/** MiB that the administrator may let one user have at most: as many as REGISTRY_USER_MB may say. */
export const MOST_REGISTRY_MB = 999_999_999;

export const adminChangeUser = endpoint('adminChangeUser', 'PATCH /api/admin/users/{id}', {
  ...ofUser,
  summary:
    'Change how much a user may have: containers, keys, sockets, and what the images hold. null lets them have what ' +
    'others may',
  body: z.strictObject({
    /** 0 lets them push none. */
    registry_limit_mb: z.int().min(0).max(MOST_REGISTRY_MB).nullable().optional(),
    limits: limitChangesSchema.optional(),
  }),
  reply: userSchema,
  refuses: ['not_found', 'conflict'],
});

export const adminSetPassword = endpoint('adminSetPassword', 'POST /api/admin/users/{id}/password', {
  ...ofUser,
  summary: "Replace a user's password by a new one, which is shown only now; their sessions end",
  reply: z.object({ password: z.string(), sessions_ended: z.int() }),
  refuses: ['not_found'],
});

/** Seconds of each choice of `expires_in` of a password link. */
export const PASSWORD_LINK_LIFETIMES = { '1h': 3600, '24h': 86_400, '7d': 7 * 86_400 } as const;

/** One of them. */
export type PasswordLinkLifetime = keyof typeof PASSWORD_LINK_LIFETIMES;

export const adminPasswordLink = endpoint('adminPasswordLink', 'POST /api/admin/users/{id}/password-link', {
  ...ofUser,
  summary: 'Make a link by which a user sets a password once; it is shown only now, and voids the one before',
  query: z.object({ expires_in: z.enum(['1h', '24h', '7d']).default('24h') }),
  reply: z.object({ url: z.string(), expires_at: z.iso.datetime() }),
  refuses: ['not_found', 'conflict'],
});

export const adminForgetKeys = endpoint('adminForgetKeys', 'DELETE /api/admin/users/{id}/keys', {
  ...ofUser,
  rateLimit: 'removal',
  summary: 'Delete the security keys of a user who lost them: the password is enough then',
  reply: z.object({ keys: z.int() }),
  refuses: ['not_found'],
});

export const adminDisableUser = endpoint('adminDisableUser', 'POST /api/admin/users/{id}/disable', {
  ...ofUser,
  rateLimit: 'removal',
  summary: 'Let a user in no more: sessions end, tokens open nothing; with `stop` their containers stop',
  query: z.object({ stop: flag(false) }),
  reply: z.object({ state: userStateSchema, changed: z.boolean(), containers: z.int() }),
  refuses: ['not_found', 'conflict'],
});

export const adminEnableUser = endpoint('adminEnableUser', 'POST /api/admin/users/{id}/enable', {
  ...ofUser,
  summary: 'Let a disabled user in again',
  reply: z.object({ state: userStateSchema, changed: z.boolean() }),
  refuses: ['not_found', 'conflict'],
});

export const adminRemoveUser = endpoint('adminRemoveUser', 'DELETE /api/admin/users/{id}', {
  ...ofUser,
  rateLimit: 'removal',
  summary: 'Begin the removal of a user with all that is theirs, which the platform finishes by itself',
  reply: z.object({ state: userStateSchema, containers: z.int(), mappings: z.int() }),
  refuses: ['not_found', 'conflict'],
});

export const adminListSessions = endpoint('adminListSessions', 'GET /api/admin/users/{id}/sessions', {
  ...ofUser,
  summary: 'Logins of a user whose tokens have not expired',
  reply: z.array(z.object({ id: z.int(), ip_address: z.string(), created_at: z.iso.datetime() })),
  refuses: ['not_found'],
});

export const adminEndSessions = endpoint('adminEndSessions', 'DELETE /api/admin/users/{id}/sessions', {
  ...ofUser,
  rateLimit: 'removal',
  summary: 'End all sessions of a user; API tokens go on',
  reply: z.object({ ended: z.int() }),
  refuses: ['not_found'],
});

const auditEntrySchema = z.object({
  id: z.int(),
  at: z.iso.datetime(),
  user_id: z.string().nullable(),
  username: z.string(),
  action: z.string(),
  target: z.string(),
  address: z.string(),
  request_id: z.string(),
  detail: z.record(z.string(), z.unknown()),
});

export const adminAudit = endpoint('adminAudit', 'GET /api/admin/audit', {
  ...common,
  summary: 'The audit trail, newest first; the next page is `before` the last id of this one',
  query: z.object({
    username: z.string().max(64).optional(),
    action: z
      .string()
      .regex(/^[a-z_]+(\.[a-z_]+)*$/, 'must be a noun or noun.verb, such as token or token.create')
      .optional(),
    since: z.iso.datetime().optional(),
    before: wholeNumber.optional(),
    limit,
  }),
  reply: z.array(auditEntrySchema),
});

/** `drained`: it gave all that it held away, and can be stopped. */
const nodeStateSchema = z.enum(['serving', 'draining', 'drained', 'gone']);

const nodeSchema = z.object({
  id: z.string(),
  address: z.string(),
  roles: z.array(z.string()),
  version: z.string(),
  state: nodeStateSchema,
  started_at: z.iso.datetime(),
  /** What is left of its lease, ms. */
  lease_ms: z.int(),
  /** Shards that it holds, by service. */
  shards: z.record(z.string(), z.int()),
});

export const adminNodes = endpoint('adminNodes', 'GET /api/admin/nodes', {
  ...common,
  summary: 'The processes of the cluster, and how many shards of each service are held',
  reply: z.object({
    nodes: z.array(nodeSchema),
    services: z.array(z.object({ service: z.string(), shards: z.int(), held: z.int() })),
  }),
});

const drainReply = z.object({ id: z.string(), address: z.string(), state: nodeStateSchema });

export const adminDrainNode = endpoint('adminDrainNode', 'POST /api/admin/nodes/{id}/drain', {
  ...common,
  summary: 'Ask a node to give all that it holds to others; with `force` although nobody else could serve it',
  params: z.object({ id: z.string().max(64) }),
  query: z.object({ force: flag(false) }),
  reply: drainReply,
  refuses: ['not_found', 'conflict'],
});

export const adminUndrainNode = endpoint('adminUndrainNode', 'DELETE /api/admin/nodes/{id}/drain', {
  ...common,
  rateLimit: 'counted',
  summary: 'Let a node take its share again',
  params: z.object({ id: z.string().max(64) }),
  reply: drainReply,
  refuses: ['not_found', 'conflict'],
});

const routeSchema = z.object({
  id: z.int(),
  host: z.string(),
  path_prefix: z.string(),
  target: z.string(),
  strip_prefix: z.boolean(),
  priority: z.int(),
  /** What the response cache keeps of its answers. Absent: `default`. */
  cache: cacheModeSchema.optional(),
  /** The platform's own, which stays. */
  managed: z.boolean(),
});

export const adminListRoutes = endpoint('adminListRoutes', 'GET /api/admin/routes', {
  ...common,
  summary: "The gateway's routes, in the order of matching",
  reply: z.array(routeSchema),
});

export const adminAddRoute = endpoint('adminAddRoute', 'POST /api/admin/routes', {
  ...common,
  idempotent: 'key',
  summary: 'Lead a hostname and path prefix to a program; running gateways have it at once',
  body: newRouteSchema,
  reply: routeSchema,
  status: 201,
  refuses: ['conflict'],
});

export const adminDeleteRoute = endpoint('adminDeleteRoute', 'DELETE /api/admin/routes/{id}', {
  ...common,
  rateLimit: 'removal',
  summary: "Remove an operator's route",
  params: z.object({ id: wholeNumber }),
  status: 204,
  refuses: ['not_found', 'conflict'],
});

/** The administrator's endpoints of the authentication service. */
export const adminEndpoints = [
  adminListUsers,
  adminAddUser,
  adminChangeUser,
  adminSetPassword,
  adminPasswordLink,
  adminForgetKeys,
  adminDisableUser,
  adminEnableUser,
  adminRemoveUser,
  adminListSessions,
  adminEndSessions,
  adminAudit,
] as const;

/** Those on nodes and routes, which the process of the authentication service answers besides. */
export const platformEndpoints = [
  adminNodes,
  adminDrainNode,
  adminUndrainNode,
  adminListRoutes,
  adminAddRoute,
  adminDeleteRoute,
] as const;
