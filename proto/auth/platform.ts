/** What clients ask of the platform as a whole: which it is, what it offers, and all its endpoints. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';

const common = { service: 'auth', actor: { kind: 'auth/platform', key: 'none' } } as const;

export const showPlatform = endpoint('showPlatform', 'GET /api/platform', {
  ...common,
  access: 'none',
  summary: 'What this is, and its version',
  reply: z.object({ name: z.literal('troupe'), version: z.string() }),
});

/** What the user who asks may have. */
const limitsSchema = z.object({
  containers: z.int(),
  ssh_keys: z.int(),
  hostnames: z.int(),
  domains: z.int(),
  /** Most megabytes of files in one transfer. */
  files_mb: z.int(),
  /** How many changes a session or a token that is alone may make at once, and then in a minute. */
  changes_burst: z.int().optional(),
  changes_per_minute: z.int(),
  /** Most megabytes of a user's images, where the platform runs the registry; absent: there is no limit. */
  images_mb: z.int().optional(),
  /** Sockets that may be open at once. Older nodes leave them out. */
  terminals: z.int().optional(),
  commands: z.int().optional(),
  log_sockets: z.int().optional(),
  update_sockets: z.int().optional(),
  notification_sockets: z.int().optional(),
});

export const showPlatformFacts = endpoint('showPlatformFacts', 'GET /api/platform/facts', {
  ...common,
  // A token of a single container needs no more: addresses of what it opens are made of it.
  access: 'token',
  summary: 'What the platform offers its users: names, ports and limits',
  reply: z.object({
    name: z.literal('troupe'),
    version: z.string(),
    domain: z.string(),
    /** Containers are reached at `<id>.<this>`. */
    containers_domain: z.string(),
    engine: z.enum(['docker', 'kubernetes']),
    /** Where SSH is answered; null while no gateway has said it. */
    ssh: z.object({ host: z.string(), port: z.int() }).nullable(),
    /** On which ports the gateway listens; null while no gateway has said it. */
    ports: z.object({ http: z.int(), https: z.int() }).nullable(),
    /** Where images are pushed; null: there is no registry. */
    registry_host: z.string().nullable(),
    /** For what machines images have to be, as they name it: `amd64`; absent where that is not known. */
    architecture: z.string().optional(),
    /** Where a CNAME record of a hostname has to lead. */
    ingress_host: z.string(),
    /** The image of containers that name none; null: the platform's own Debian. */
    default_image: z.string().nullable(),
    limits: limitsSchema,
  }),
});

export const showPlatformApi = endpoint('showPlatformApi', 'GET /api/platform/openapi.json', {
  ...common,
  access: 'none',
  summary: 'The OpenAPI document of all services',
  reply: z.record(z.string(), z.unknown()),
});

/** Answered by the process of the authentication service, for all. */
export const platformFactsEndpoints = [showPlatform, showPlatformFacts, showPlatformApi];
