/** The authentication service's endpoints and views. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { wholeNumber } from '../whole-number.ts';
import { adminEndpoints } from './admin.ts';
import { apiTokenEndpoints } from './api-tokens.ts';
import { isCommonPassword } from './common-passwords.ts';
import { deviceEndpoints } from './device.ts';
import { registryEndpoints } from './registry.ts';
import { securityKeyEndpoints } from './security-keys.ts';

/** Lower-case, since it is also the first part of a registry repository. */
export const usernameSchema = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._-]{0,62}$/,
    'must be 1 to 63 characters a-z, 0-9, ".", "_", "-", starting with a letter or digit',
  );

/** 8 to 256 characters, counted in code points. */
export const passwordSchema = z
  .string()
  .max(1024, 'must be at most 256 characters')
  .refine((text) => [...text].length >= 8 && [...text].length <= 256, 'must be 8 to 256 characters')
  .refine((text) => !text.includes('\0'), 'must not contain NUL')
  .refine((text) => !isCommonPassword(text), 'must not be one of those that everybody tries first');

const displayNameSchema = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(128, 'must be at most 128 characters')
  .regex(/^[^\p{Cc}]*$/u, 'must not contain control characters');

const profile = { username: z.string(), display_name: z.string(), user_id: z.string() };
const identity = z.object({ ...profile, is_admin: z.boolean() });

/** 2.1, what a finished login answers. */
export const identitySchema = identity.extend({ token: z.string() });
export type Identity = z.output<typeof identitySchema>;

/** A login that holds, as its user sees it. */
const sessionRecord = z.object({
  id: z.int(),
  ip_address: z.string(),
  created_at: z.int(),
  is_current: z.boolean(),
  /** What logged in, as it calls itself; empty when it did not say. */
  user_agent: z.string().optional(),
  /** When it asked for its session last; null: never. */
  last_seen_at: z.int().nullable().optional(),
});

const ofUser = { service: 'auth', access: 'session', actor: { kind: 'auth/user', key: 'caller' } } as const;
const ofLogin = { service: 'auth', access: 'none', actor: { kind: 'auth/login', key: 'none' } } as const;

/** A known user logs in. The lengths only bound the work: a wrong shape is a wrong login. */
export const login = endpoint('login', 'POST /api/login', {
  ...ofLogin,
  summary: 'Log in with username and password',
  body: z.object({ username: z.string().max(256), password: z.string().max(1024) }),
  reply: z.union([identitySchema, z.object({ requires_2fa: z.literal(true), challenge_token: z.string() })]),
  refuses: ['invalid_credentials', 'forbidden', 'too_many_attempts'],
  session: 'begins',
});

export const session = endpoint('session', 'GET /api/session', {
  ...ofUser,
  summary: 'Who is logged in, and until when',
  reply: identity.extend({ expires_at: z.iso.datetime().optional() }),
});

/** The longest a login lasts that is renewed again and again, days. */
export const MAX_SESSION_DAYS = 30;

export const renewSession = endpoint('renewSession', 'POST /api/session/renew', {
  ...ofUser,
  notByKey: true,
  rateLimit: 'exempt',
  summary: `Prolong the session that asks by a new token, at most until ${MAX_SESSION_DAYS} days after the login`,
  reply: z.object({ token: z.string(), expires_at: z.iso.datetime() }),
  refuses: ['conflict'],
  session: 'begins',
});

/** A token is not revoked here: "the client discards its token". A session that a cookie holds ends. */
export const logout = endpoint('logout', 'POST /api/logout', {
  ...ofLogin,
  summary: 'Log out: the client discards its token',
  reply: z.object({ status: z.literal('ok') }),
  session: 'ends',
});

export const updateProfile = endpoint('updateProfile', 'PUT /api/settings/profile', {
  ...ofUser,
  summary: 'Change the display name',
  body: z.object({ display_name: displayNameSchema }),
  reply: z.object(profile),
});

export const changePassword = endpoint('changePassword', 'PUT /api/settings/password', {
  ...ofUser,
  notByKey: true,
  rateLimit: 'removal',
  summary: 'Change the password',
  body: z.object({ current_password: z.string().max(1024), new_password: passwordSchema }),
  refuses: ['wrong_password', 'too_many_attempts'],
});

/** What stands in a password link, as its user sends it. The length only bounds the work: a wrong shape is unknown. */
const linkToken = z.string().max(128);

/** A POST, for a token in a path or a query would be logged. */
export const showPasswordLink = endpoint('showPasswordLink', 'POST /api/password-link', {
  ...ofLogin,
  summary: 'Whose password the link of this token sets, and until when',
  body: z.object({ token: linkToken }),
  reply: z.object({ username: z.string(), expires_at: z.iso.datetime() }),
  refuses: ['not_found', 'too_many_attempts', 'overloaded'],
});

export const usePasswordLink = endpoint('usePasswordLink', 'POST /api/password-link/use', {
  ...ofLogin,
  summary: 'Set the password that the link of this token is for, once; all sessions of the user end',
  body: z.object({ token: linkToken, new_password: passwordSchema }),
  reply: z.object({ username: z.string() }),
  refuses: ['not_found', 'too_many_attempts', 'overloaded'],
});

export const listSessions = endpoint('listSessions', 'GET /api/settings/sessions', {
  ...ofUser,
  summary: 'Logins whose tokens have not expired',
  reply: z.array(sessionRecord),
});

export const endSession = endpoint('endSession', 'DELETE /api/settings/sessions/{id}', {
  ...ofUser,
  notByKey: true,
  rateLimit: 'removal',
  summary: 'End one of your logins, on all nodes within a second',
  params: z.object({ id: wholeNumber }),
  status: 204,
  refuses: ['not_found'],
});

export const endOtherSessions = endpoint('endOtherSessions', 'DELETE /api/settings/sessions', {
  ...ofUser,
  notByKey: true,
  rateLimit: 'removal',
  summary: 'End all of your logins but the one that asks; API tokens go on',
  reply: z.object({ ended: z.int() }),
});

/** All endpoints of the service. */
export const authEndpoints = [
  login,
  session,
  renewSession,
  logout,
  updateProfile,
  changePassword,
  showPasswordLink,
  usePasswordLink,
  listSessions,
  endSession,
  endOtherSessions,
  ...deviceEndpoints,
  ...apiTokenEndpoints,
  ...registryEndpoints,
  ...securityKeyEndpoints,
  ...adminEndpoints,
] as const;

/** News that a user's row was changed outside its actor (the command line): the actor reads it again. */
export const userChanged = {
  pattern: 'auth.user.*.changed',
  subject: (userId: string): string => `auth.user.${userId}.changed`,
  userOf: (subject: string): string => subject.split('.')[2] ?? '',
} as const;
