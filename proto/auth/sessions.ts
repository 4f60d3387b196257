/** Sessions of a user: the list of them, their renewal and their end. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';

/** A login that holds, as its user sees it. Times are unix seconds. */
const sessionRecord = z.object({
  id: z.int(),
  ip_address: z.string(),
  created_at: z.int(),
  is_current: z.boolean(),
  /** What logged in, as it called itself; empty when it did not. */
  user_agent: z.string().optional(),
  last_seen_at: z.int().optional(),
});

const common = { service: 'auth', access: 'session', actor: { kind: 'auth/user', key: 'caller' } } as const;

export const listSessions = endpoint({
  ...common,
  name: 'listSessions',
  method: 'GET',
  path: '/api/settings/sessions',
  summary: 'Logins whose tokens have not expired',
  reply: z.array(sessionRecord),
});

/** It stays one session: what ends it ends all of its tokens. */
export const renewSession = endpoint({
  ...common,
  name: 'renewSession',
  method: 'POST',
  path: '/api/session/renew',
  summary: 'A token of this session that expires later',
  sessionCookie: 'begins',
  reply: z.object({ token: z.string().optional(), expires_at: z.int() }),
  refuses: ['conflict'],
});

export const endSession = endpoint({
  ...common,
  name: 'endSession',
  method: 'DELETE',
  path: '/api/settings/sessions/{id}',
  uncounted: true,
  summary: 'End a session',
  params: z.object({ id: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER) }),
  refuses: ['not_found'],
});

export const endOtherSessions = endpoint({
  ...common,
  name: 'endOtherSessions',
  method: 'DELETE',
  path: '/api/settings/sessions',
  uncounted: true,
  summary: 'End all sessions but this one',
  reply: z.object({ ended: z.int() }),
});

/** All endpoints of this file. */
export const sessionEndpoints = [listSessions, renewSession, endSession, endOtherSessions] as const;
