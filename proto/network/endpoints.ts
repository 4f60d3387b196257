/** The networking API's endpoints and views. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { ERRORS, type Refusal } from '../errors.ts';
import { cacheModeSchema } from '../gateway/cache-mode.ts';
import { idSchema } from '../ids.ts';
import { useTools } from './tools.ts';

/** Owned domains and mappings that a user may have: far above what anybody needs. */
export const MAX_OWNED_DOMAINS = 20;
export const MAX_MAPPINGS = 100;

/** Where a mapping is in its life. */
export const mappingStatusSchema = z.enum(['pending', 'verified', 'failed']);

const zonesFields = { id: z.string(), zones: z.array(z.string()) };

/** 2.6, as it is listed. */
const ownedDomainSchema = z.object({ ...zonesFields, created_at: z.iso.datetime() });
export type OwnedDomainView = z.output<typeof ownedDomainSchema>;

const zonesSchema = z.object(zonesFields);

/**
 * A record to make at the DNS provider. `name_in_zone` is for providers that add the zone's name themselves, and there
 * once the zone is known. `note` is there when the record cannot simply be made.
 */
const recordSchema = z.object({
  type: z.enum(['TXT', 'CNAME']),
  name: z.string(),
  name_in_zone: z.string().optional(),
  value: z.string(),
  note: z.string().optional(),
});

/**
 * A mapping. `detail` is there when the user should know something: why it failed, or what its certificate waits for.
 */
export const mappingSchema = z.object({
  id: z.string(),
  domain: z.string(),
  container_id: z.string(),
  target_port: z.int(),
  status: mappingStatusSchema,
  /** What gateways keep of the answers at this hostname. Absent: `default`. */
  cache: cacheModeSchema.optional(),
  verify_name: z.string(),
  verify_token: z.string(),
  dns_automated: z.literal(true).optional(),
  detail: z.string().optional(),
  /** Where a CNAME record of the hostname has to lead. */
  cname_target: z.string().optional(),
  /** The DNS zone that holds the hostname; absent while it is not known. */
  zone: z.string().optional(),
  /** What to enter at the DNS provider. */
  records: z.array(recordSchema).optional(),
  created_at: z.iso.datetime().optional(),
  /** When the proof was looked for last, and when it is next; null: never. */
  checked_at: z.iso.datetime().nullable().optional(),
  next_check_at: z.iso.datetime().nullable().optional(),
  /** Until when the certificate of a verified one is valid; null while there is none. */
  certificate_until: z.iso.datetime().nullable().optional(),
});
export type MappingView = z.output<typeof mappingSchema>;

const INVALID_BODY = 'invalid request body';
const NO_TOKEN = 'token is required';
const INVALID_DOMAIN = 'invalid domain';
const INVALID_PORT = 'port must be 80, 443, or 8000-8999';

/** Longest provider token that is taken; the provider's own have 40 characters. */
const MAX_PROVIDER_TOKEN = 512;

const connectBody = z.object(
  {
    token: z
      .string(NO_TOKEN)
      .trim()
      .min(1, NO_TOKEN)
      // What cannot stand in a header is no token (RFC 9110, section 5.5).
      .regex(new RegExp(`^[\\x21-\\x7e]{1,${MAX_PROVIDER_TOKEN}}$`), 'token invalid or lacks zone access'),
  },
  NO_TOKEN,
);

/** The fields are named in the order of their checks. */
const mappingBody = z.object(
  {
    domain: z.string(INVALID_DOMAIN).min(1, INVALID_DOMAIN).max(1024, INVALID_DOMAIN),
    target_port: z
      .int(INVALID_PORT)
      .refine((port) => port === 80 || port === 443 || (port >= 8000 && port <= 8999), INVALID_PORT),
    container_id: z
      .string('container_id is required')
      .min(1, 'container_id is required')
      .max(256, 'container not found'),
    cache: cacheModeSchema.default('default'),
  },
  INVALID_BODY,
);

const common = { service: 'network', access: 'token' } as const;
const byOwner = { kind: 'network/owner', key: 'caller' } as const;
const byUser = { kind: 'network/user', key: 'caller' } as const;
const byMapping = { kind: 'network/mapping', key: 'param', param: 'id' } as const;
const params = z.object({ id: idSchema });

const scope = (resource: string, action: string) => ({ key: (uid: string) => `networking.${uid}.${resource}`, action });
const scopeOfId = (resource: string, action: string) => ({
  key: (uid: string, { id = '' }: Readonly<Record<string, string>>) => `networking.${uid}.${resource}.${id}`,
  action,
});
const ofDomains = (action: string) => ({ ...common, scope: scope('domains', action), actor: byOwner });
const ofDomain = (action: string) => ({ ...common, scope: scopeOfId('domains', action), params, actor: byOwner });
const ofMappings = (action: string) => ({ ...common, scope: scope('domain-mappings', action), actor: byUser });
const ofMapping = (action: string) => ({
  ...common,
  scope: scopeOfId('domain-mappings', action),
  params,
  actor: byMapping,
});

export const listOwnedDomains = endpoint('listOwnedDomains', 'GET /api/domains', {
  ...ofDomains('read'),
  summary: 'Your connections to a DNS provider, with the zones each covers',
  reply: z.object({ connections: z.array(ownedDomainSchema) }),
  refuses: ['not_configured'],
});

export const connectDomain = endpoint('connectDomain', 'POST /api/domains', {
  ...ofDomains('create'),
  idempotent: 'key',
  summary: 'Connect a DNS provider by an API token: records in its zones are made for you from then on',
  body: connectBody,
  reply: zonesSchema,
  status: 201,
  refuses: ['not_configured', 'limit_reached', 'bad_gateway'],
});

export const disconnectDomain = endpoint('disconnectDomain', 'DELETE /api/domains/{id}', {
  ...ofDomain('delete'),
  rateLimit: 'removal',
  summary: 'Forget a token; mappings and records stay as they are',
  status: 204,
  refuses: ['not_configured', 'not_found'],
});

export const refreshDomain = endpoint('refreshDomain', 'POST /api/domains/{id}/refresh', {
  ...ofDomain('create'),
  summary: 'Read the zones of a token again',
  reply: zonesSchema,
  refuses: ['not_configured', 'not_found', 'conflict', 'bad_gateway'],
});

export const listMappings = endpoint('listMappings', 'GET /api/domain-mappings', {
  ...ofMappings('read'),
  summary: 'Your hostnames, and where each leads',
  reply: z.object({ domains: z.array(mappingSchema) }),
});

export const createMapping = endpoint('createMapping', 'POST /api/domain-mappings', {
  ...ofMappings('create'),
  idempotent: 'key',
  summary: 'Map a hostname to a port of a container of yours',
  body: mappingBody,
  reply: mappingSchema,
  status: 201,
  refuses: ['forbidden', 'not_found', 'conflict', 'limit_reached'],
  proves: true,
});

export const changeMapping = endpoint('changeMapping', 'PATCH /api/domain-mappings/{id}', {
  ...ofMapping('create'),
  summary: 'Change what gateways keep of the answers at a hostname; what they kept is forgotten',
  body: z.strictObject({ cache: cacheModeSchema }, INVALID_BODY),
  reply: mappingSchema,
  refuses: ['not_found'],
});

export const deleteMapping = endpoint('deleteMapping', 'DELETE /api/domain-mappings/{id}', {
  ...ofMapping('delete'),
  rateLimit: 'removal',
  summary: 'Give a hostname up; the record that was made for it goes, too',
  status: 204,
  refuses: ['not_found'],
});

export const verifyMapping = endpoint('verifyMapping', 'POST /api/domain-mappings/{id}/verify', {
  ...ofMapping('create'),
  summary: 'Look for the TXT record now',
  reply: z.union([
    z.object({ status: z.literal('verified') }),
    z.object({ status: z.literal('pending'), detail: z.string() }),
  ]),
  refuses: ['not_found', 'conflict', 'too_many_attempts'],
  proves: true,
});

/** Those that need the integration with a DNS provider. */
export const ownedDomainEndpoints = [listOwnedDomains, connectDomain, disconnectDomain, refreshDomain] as const;
export const mappingEndpoints = [listMappings, createMapping, changeMapping, deleteMapping, verifyMapping] as const;

/** All endpoints of the service. */
export const networkEndpoints = [...ownedDomainEndpoints, ...mappingEndpoints, useTools] as const;

/** Sentences of this API that handlers give themselves. */
export const SAYS = {
  invalidDomain: INVALID_DOMAIN,
  badToken: 'token invalid or lacks zone access',
  notConfigured: 'dns-provider integration not configured',
  forbidden: 'forbidden',
  noContainer: 'container not found',
  taken: 'domain already in use',
} as const;

/** What stands for a refusal that has no sentence of its own. */
const PLAIN: Readonly<Record<string, string>> = {
  unauthorized: 'unauthorized',
  forbidden: 'forbidden',
  not_found: 'not found',
  not_configured: SAYS.notConfigured,
  invalid_json: INVALID_BODY,
};

/** The body of a refusal: this API answers with plain text. `endpointName` is '' when the path leads nowhere. */
export function plainText(refusal: Refusal, endpointName: string): string {
  if (refusal.code === 'invalid_json') return endpointName === connectDomain.name ? NO_TOKEN : INVALID_BODY;
  const [field] = refusal.fields ?? [];
  if (field !== undefined) return field.message;
  return refusal.message === ERRORS[refusal.code].text ? (PLAIN[refusal.code] ?? refusal.message) : refusal.message;
}
