/** Webhooks: addresses of a user's own to which notifications are sent, and what they answered. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { ID_PATTERN } from '../ids.ts';
import { MAX_CATEGORY_LENGTH } from './fields.ts';

/** Webhooks that a user may have. */
export const MAX_WEBHOOKS = 5;
/** Answers of a webhook that are kept. */
export const KEPT_ANSWERS = 50;
/** How long the secret before still signs after a rotation, ms. */
export const FORMER_SECRET_MS = 24 * 3_600_000;
const MAX_URL_LENGTH = 2048;
const MAX_CATEGORIES = 20;

const target = z
  .string()
  .max(MAX_URL_LENGTH, `must be at most ${MAX_URL_LENGTH} characters`)
  .refine((text) => /^https?:\/\/[^\s\\]+$/i.test(text) && URL.canParse(text), 'must be an address with https://');

/** Categories of a webhook or of mail; none stands for all. */
export const categoriesSchema = z
  .array(
    z
      .string()
      .max(MAX_CATEGORY_LENGTH, `must be at most ${MAX_CATEGORY_LENGTH} characters`)
      .refine((text) => !text.includes('\0'), 'must not contain NUL'),
  )
  .max(MAX_CATEGORIES, `must be at most ${MAX_CATEGORIES}`)
  .transform((names) => [...new Set(names)]);

/** How a webhook is: see docs/reference/notifications.md. */
const statusSchema = z.enum(['ok', 'retrying', 'failing', 'disabled']);
export type WebhookStatus = z.output<typeof statusSchema>;

/** A webhook, without its secret. */
export const webhookSchema = z.object({
  id: z.string(),
  url: z.string(),
  categories: z.array(z.string()).describe('empty: all'),
  enabled: z.boolean(),
  status: statusSchema,
  disabled_because: z
    .enum(['', 'user', 'gone', 'dead'])
    .describe('`gone`: it answered 410; `dead`: it failed too long'),
  failing_since: z.iso.datetime().nullable(),
  waiting: z.int().describe('deliveries that are still tried'),
  created_at: z.iso.datetime(),
});
export type WebhookView = z.output<typeof webhookSchema>;

const withSecret = webhookSchema.extend({ secret: z.string().describe('shown only now') });

/** What a webhook answered to one try. */
export const webhookAnswerSchema = z.object({
  event_id: z.string().describe('the header webhook-id'),
  attempt: z.int(),
  at: z.iso.datetime(),
  status: z.int().nullable().describe('of HTTP; null without an answer'),
  ms: z.int(),
  error: z.string().describe('a sentence; empty after a success'),
});
export type WebhookAnswerView = z.output<typeof webhookAnswerSchema>;

const common = { service: 'notify', access: 'session', actor: { kind: 'notify/settings', key: 'none' } } as const;
const one = { ...common, params: z.object({ id: z.string().regex(ID_PATTERN) }) };

export const listWebhooks = endpoint('listWebhooks', 'GET /api/notifications/webhooks', {
  ...common,
  summary: 'Your webhooks, oldest first',
  reply: z.array(webhookSchema),
});

export const addWebhook = endpoint('addWebhook', 'POST /api/notifications/webhooks', {
  ...common,
  summary: 'Add a webhook; the answer alone has its secret',
  idempotent: 'key',
  status: 201,
  body: z.object({ url: target, categories: categoriesSchema.default([]) }),
  reply: withSecret,
  refuses: ['limit_reached', 'not_configured'],
});

export const getWebhook = endpoint('getWebhook', 'GET /api/notifications/webhooks/{id}', {
  ...one,
  summary: 'One webhook',
  reply: webhookSchema,
  refuses: ['not_found'],
});

export const updateWebhook = endpoint('updateWebhook', 'PATCH /api/notifications/webhooks/{id}', {
  ...one,
  summary: 'Change a webhook. Disabling it drops what waits; enabling it forgets its failures',
  body: z.object({ url: target.optional(), categories: categoriesSchema.optional(), enabled: z.boolean().optional() }),
  reply: webhookSchema,
  refuses: ['not_found', 'not_configured'],
});

export const deleteWebhook = endpoint('deleteWebhook', 'DELETE /api/notifications/webhooks/{id}', {
  ...one,
  summary: 'Delete a webhook, and drop what waits for it',
  rateLimit: 'removal',
  reply: z.object({ status: z.literal('ok') }),
  refuses: ['not_found'],
});

export const rotateWebhook = endpoint('rotateWebhook', 'POST /api/notifications/webhooks/{id}/rotate', {
  ...one,
  summary: 'Make a new secret; the one before signs beside it for a day',
  reply: withSecret,
  refuses: ['not_found', 'not_configured'],
});

export const testWebhook = endpoint('testWebhook', 'POST /api/notifications/webhooks/{id}/test', {
  ...one,
  summary: 'Send a test; what it answers is among the deliveries',
  reply: z.object({ event_id: z.string() }),
  refuses: ['not_found', 'conflict', 'limit_reached'],
});

export const listWebhookDeliveries = endpoint(
  'listWebhookDeliveries',
  'GET /api/notifications/webhooks/{id}/deliveries',
  {
    ...one,
    summary: `The last ${KEPT_ANSWERS} answers of a webhook, newest first`,
    reply: z.array(webhookAnswerSchema),
    refuses: ['not_found'],
  },
);

/** All endpoints of webhooks. */
export const webhookEndpoints = [
  listWebhooks,
  addWebhook,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  rotateWebhook,
  testWebhook,
  listWebhookDeliveries,
] as const;
