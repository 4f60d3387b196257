/**
 * Login of a program by a browser (RFC 8628 in our words): the program shows a short code, a person who is logged in
 * enters it in a browser and approves, and the program gets a session.
 */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';

/** How long a code may be approved, seconds. */
export const DEVICE_SECONDS = 600;

const deviceName = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(64, 'must be at most 64 characters')
  .regex(/^[^\p{Cc}\p{Cf}]*$/u, 'must not contain control characters');

const common = { service: 'auth', actor: { kind: 'auth/login', key: 'none' } } as const;

export const beginDevice = endpoint('beginDevice', 'POST /api/device', {
  ...common,
  summary: 'Begin the login of a program that a person approves in a browser',
  access: 'none',
  body: z.object({ name: deviceName }),
  reply: z.object({
    device_code: z.string(),
    user_code: z.string(),
    verification_url: z.string(),
    /** The same with the code filled in. */
    verification_url_complete: z.string(),
    expires_in: z.literal(DEVICE_SECONDS),
    interval: z.int(),
  }),
  refuses: ['too_many_attempts', 'overloaded'],
});

/** `show` decides nothing. The length only bounds the work: a wrong shape is a wrong code. */
export const approveDevice = endpoint('approveDevice', 'POST /api/device/approve', {
  ...common,
  notByKey: true,
  summary: 'Look at the program that shows this code, approve its login, or refuse it',
  access: 'session',
  body: z.object({ user_code: z.string().max(64), decision: z.enum(['show', 'approve', 'refuse']) }),
  reply: z.object({
    status: z.enum(['pending', 'approved', 'refused']),
    name: z.string(),
    address: z.string(),
    created_at: z.iso.datetime(),
    expires_at: z.iso.datetime(),
  }),
  refuses: ['not_found', 'conflict', 'too_many_attempts'],
});

/** `slow_down`: wait five seconds longer from now on. `expired`: also a code that is unknown or was used. */
export const deviceToken = endpoint('deviceToken', 'POST /api/device/token', {
  ...common,
  summary: 'Whether the login was approved: once, the session',
  access: 'none',
  body: z.object({ device_code: z.string().max(128) }),
  reply: z.union([
    z.object({ status: z.enum(['pending', 'slow_down']), interval: z.int() }),
    z.object({ status: z.enum(['refused', 'expired']) }),
    z.object({
      status: z.literal('approved'),
      username: z.string(),
      display_name: z.string(),
      user_id: z.string(),
      is_admin: z.boolean(),
      token: z.string(),
      expires_at: z.iso.datetime(),
    }),
  ]),
  refuses: ['too_many_attempts'],
});

/** All endpoints of this file. */
export const deviceEndpoints = [beginDevice, approveDevice, deviceToken] as const;
