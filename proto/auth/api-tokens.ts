/** API tokens and service accounts: endpoints and views. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { idSchema } from '../ids.ts';

/** Most API tokens of a user's own, service accounts of a user, and tokens of a service account. */
export const MAX_TOKENS = 100;
export const MAX_SERVICE_ACCOUNTS = 100;

/** Seconds of each choice of `expires_in`; undefined: never. */
export const LIFETIMES = { '30d': 30 * 86_400, '90d': 90 * 86_400, '365d': 365 * 86_400, never: undefined } as const;

/** Characters are code points. */
const nameSchema = z
  .string()
  .max(256, 'must be at most 64 characters')
  .regex(/^[^\p{Cc}]*$/u, 'must not contain control characters')
  .refine((text) => text.trim() !== '', 'must not be empty')
  .refine((text) => [...text].length <= 64, 'must be at most 64 characters');

const expiresInSchema = z.enum(['30d', '90d', '365d', 'never']).default('never');

/** Whose id the keys name is checked by the handler, which knows the caller. */
const scopesSchema = z.record(z.string(), z.array(z.string()).max(16));

const times = { expires_at: z.int(), created_at: z.int(), last_used_at: z.int() };
const token = { id: z.string(), name: z.string(), scopes: scopesSchema, ...times };
const accountToken = { id: z.string(), name: z.string(), ...times };
const account = z.object({
  id: z.string(),
  name: z.string(),
  scopes: scopesSchema,
  token_count: z.int(),
  created_at: z.int(),
});
const done = z.object({ status: z.literal('ok') });
const byId = z.object({ id: idSchema });

/** An API token, as lists show it. */
const tokenView = z.object({ ...token, service_account_id: z.string().nullable() });
/** A service account, as it is shown. */
export type ServiceAccountView = z.output<typeof account>;

const common = { service: 'auth', access: 'session', actor: { kind: 'auth/user', key: 'caller' } } as const;
const one = { ...common, params: byId } as const;

export const createToken = endpoint('createToken', 'POST /api/tokens', {
  ...common,
  notByKey: true,
  idempotent: 'key',
  summary: 'Make an API token; it is shown only now',
  body: z.object({ name: nameSchema, scopes: scopesSchema, expires_in: expiresInSchema }),
  reply: z.object({ ...token, token: z.string() }),
  refuses: ['limit_reached'],
});

export const listTokens = endpoint('listTokens', 'GET /api/tokens', {
  ...common,
  summary: 'API tokens, those of service accounts among them',
  reply: z.array(tokenView),
});

export const deleteToken = endpoint('deleteToken', 'DELETE /api/tokens/{id}', {
  ...one,
  rateLimit: 'removal',
  summary: 'Revoke an API token and close the streams opened with it',
  reply: done,
});

/** Between services: whoever holds a token's id may ask whether it still holds. */
export const checkToken = endpoint('checkToken', 'GET /api/tokens/{id}/check', {
  service: 'auth',
  summary: 'Whether an API token is valid; the scopes of its service account',
  access: 'none',
  params: byId,
  reply: z.object({ status: z.literal('valid'), scopes: scopesSchema.optional() }),
  refuses: ['not_found'],
  actor: { kind: 'auth/login', key: 'none' },
});

export const createServiceAccount = endpoint('createServiceAccount', 'POST /api/service-accounts', {
  ...common,
  notByKey: true,
  idempotent: 'key',
  summary: 'Make a service account',
  body: z.object({ name: nameSchema, scopes: scopesSchema }),
  reply: account,
  refuses: ['limit_reached'],
});

export const listServiceAccounts = endpoint('listServiceAccounts', 'GET /api/service-accounts', {
  ...common,
  summary: 'Service accounts',
  reply: z.array(account),
});

export const getServiceAccount = endpoint('getServiceAccount', 'GET /api/service-accounts/{id}', {
  ...one,
  summary: 'One service account',
  reply: account,
});

export const setServiceAccountScopes = endpoint('setServiceAccountScopes', 'PUT /api/service-accounts/{id}/scopes', {
  ...one,
  notByKey: true,
  summary: 'Replace the scopes of a service account; its tokens have them at once',
  body: z.object({ scopes: scopesSchema }),
  reply: done,
});

export const deleteServiceAccount = endpoint('deleteServiceAccount', 'DELETE /api/service-accounts/{id}', {
  ...one,
  rateLimit: 'removal',
  summary: 'Delete a service account and revoke its tokens',
  reply: done,
});

export const createServiceAccountToken = endpoint(
  'createServiceAccountToken',
  'POST /api/service-accounts/{id}/tokens',
  {
    ...one,
    notByKey: true,
    idempotent: 'key',
    summary: 'Make a token of a service account; it is shown only now',
    body: z.object({ name: nameSchema, expires_in: expiresInSchema }),
    reply: z.object({ ...accountToken, token: z.string() }),
    refuses: ['limit_reached'],
  },
);

export const listServiceAccountTokens = endpoint('listServiceAccountTokens', 'GET /api/service-accounts/{id}/tokens', {
  ...one,
  summary: 'Tokens of a service account',
  reply: z.array(z.object(accountToken)),
});

/** All endpoints of this file. */
export const apiTokenEndpoints = [
  createToken,
  listTokens,
  deleteToken,
  checkToken,
  createServiceAccount,
  listServiceAccounts,
  getServiceAccount,
  setServiceAccountScopes,
  deleteServiceAccount,
  createServiceAccountToken,
  listServiceAccountTokens,
] as const;
