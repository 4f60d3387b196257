/** Notifications by mail: to an address that its user has proven to read. Off until then. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { categoriesSchema } from './webhooks.ts';

/** Digits of the code that proves an address. */
export const MAIL_CODE_DIGITS = 6;

/**
 * One plain address. Narrower than RFC 5321 allows, so that nothing of it means anything in a header or to a server.
 */
const MAILBOX = '[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,62}[A-Za-z0-9_+-])?';
const HOST = '(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,63}';
const address = z
  .string()
  .max(254, 'must be at most 254 characters')
  .regex(new RegExp(`^${MAILBOX}@${HOST}$`), 'must be one mail address such as ann@example.com');

/** How mail to a user is. */
const mailSchema = z.object({
  available: z.boolean().describe('whether this platform sends mail'),
  address: z.string().nullable().describe('null: off'),
  categories: z.array(z.string()).describe('empty: all'),
  verified: z.boolean().describe('nothing is sent before'),
  waiting: z.int().describe('notifications that are still to be sent'),
  error: z.string().describe('why the last mail could not be sent; empty when it was'),
});
export type MailView = z.output<typeof mailSchema>;

const common = { service: 'notify', access: 'session', actor: { kind: 'notify/settings', key: 'none' } } as const;

export const getMail = endpoint('getMail', 'GET /api/notifications/mail', {
  ...common,
  summary: 'Whether, and where, you are told by mail',
  reply: mailSchema,
});

export const setMail = endpoint('setMail', 'PUT /api/notifications/mail', {
  ...common,
  summary: 'Be told by mail. An address that is not verified is sent a code; null turns mail off',
  body: z.object({ address: address.nullable(), categories: categoriesSchema.default([]) }),
  reply: mailSchema,
  refuses: ['not_configured', 'limit_reached', 'bad_gateway'],
});

export const verifyMail = endpoint('verifyMail', 'POST /api/notifications/mail/verify', {
  ...common,
  summary: 'Prove that you read the mail of your address, by the code that it was sent',
  body: z.object({
    code: z.string().regex(new RegExp(`^[0-9]{${MAIL_CODE_DIGITS}}$`), `must be ${MAIL_CODE_DIGITS} digits`),
  }),
  reply: mailSchema,
  refuses: ['conflict', 'not_configured'],
});

/** All endpoints of mail. */
export const mailEndpoints = [getMail, setMail, verifyMail] as const;
