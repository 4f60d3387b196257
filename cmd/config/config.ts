/** Everything Troupe reads from its environment. A bad value is named with what was expected. */
import { readFileSync, statSync } from 'node:fs';
import { z } from 'zod';
import { parseRegistryKey, type RegistryKey, RegistryKeyError } from '../../actors/auth/registry/registry-key.ts';
import { isCommonPassword } from '../../proto/auth/common-passwords.ts';
import { usernameSchema } from '../../proto/auth/endpoints.ts';
import { DEFAULT_FILES_MAX_MB } from '../../proto/compute/files.ts';
import { addressOf, targetSchema } from '../../proto/gateway/routes.ts';
import { validationMessage } from '../../proto/validation-messages.ts';
import { parseSealKey } from '../../storage/seal.ts';
import { MAX_RESOLVERS, txtResolvers } from '../../transports/clients/dns/resolvers.ts';
import { parseNetworks } from '../../transports/clients/webhooks/targets.ts';
import { parseEgress } from '../../transports/engines/common/confinement.ts';
import { parsePool } from '../../transports/engines/common/subnets.ts';
import { dockerProblem } from '../../transports/engines/docker/api/address.ts';
import { parseTrusted } from '../../transports/wire/peer-address.ts';
import { CliError } from './cli-error.ts';
import { mailSender, smtpUrl } from './mail.ts';
import { parseNatsUrls } from './nats-urls.ts';
import { HOST_NAME } from './options.ts';
import { MIN_SECRET_BYTES } from './shared-secrets.ts';
import { USER_LIMIT_VARIABLES } from './user-limits.ts';

const port = z.number().int().min(0).max(65_535);
const text = z.string().trim().min(1).optional();
const url = (...protocols: string[]) =>
  z
    .string()
    .refine(
      (value) => protocols.some((protocol) => value.startsWith(`${protocol}://`)),
      `must begin with ${protocols.map((p) => `${p}://`).join(' or ')}`,
    )
    .optional();

/** Text of a form, and the same as a number. */
const matching = (form: RegExp, expected: string) => z.string().regex(form, expected);
const digits = (form: RegExp, expected: string) => matching(form, expected).transform(Number);

/** Parts separated by commas, all of them such as `isOne` says. */
const list = (isOne: (part: string) => boolean, expected: string, most = Number.POSITIVE_INFINITY) =>
  z
    .string()
    .transform((value) => value.split(',').map((part) => part.trim()))
    .refine((parts) => parts.length <= most && parts.every(isOne), expected);

/** Text that `read` does not throw for. */
const accepted = (read: (text: string) => unknown, expected: string) => z.string().refine(accepts(read), expected);

/** What `read` makes of the text, if it makes anything of it. */
const readBy = <T>(read: (text: string) => T | undefined, expected: string) =>
  z.string().transform((value, context) => {
    const found = read(value);
    if (found !== undefined) return found;
    context.addIssue({ code: 'custom', message: expected });
    return z.NEVER;
  });

/** "24h", "90m", "3600s" or a plain number of seconds. */
const seconds = matching(/^[1-9][0-9]{0,8}[smhd]?$/, 'must be a time such as 90m, 24h or 7d, or a number of seconds')
  .transform((value) => Number.parseInt(value, 10) * ({ s: 1, m: 60, h: 3600, d: 86_400 }[value.at(-1) ?? ''] ?? 1))
  .pipe(
    z
      .number()
      .min(60, 'must be at least a minute')
      .max(365 * 86_400, 'must be at most 365 days'),
  );

/** A file is read here, so that a bad key stops the start like any other bad value. */
const registryKey = z.string().transform((value, context) => {
  try {
    return readRegistryKey(value);
  } catch (error) {
    if (!(error instanceof RegistryKeyError)) throw error;
    context.addIssue({ code: 'custom', message: error.message });
    return z.NEVER;
  }
});
const hostName = z.string().toLowerCase().regex(HOST_NAME, 'must be a host name');

/** Origins as browsers write them, so that they can be compared as text. */
const origins = list(isOrigin, 'must be origins such as https://console.example.com, separated by commas');

const natsUrls = readBy(
  parseNatsUrls,
  'must be one or more of nats://[user:password@]host[:port] and tls://..., separated by commas',
);

/** Addresses, with a port if it is not 53; IPv6 with a port in brackets: as node:dns takes them. */
const resolvers = list(
  accepts((server) => txtResolvers({ servers: [server] })),
  `must be at most ${MAX_RESOLVERS} addresses such as 192.0.2.1 or 192.0.2.1:5353, separated by commas`,
  MAX_RESOLVERS,
);

/** Whole seconds, up to a minute, as `5s` or `5`; in ms. */
const leaveDelay = matching(/^([0-9]|[1-5][0-9]|60)s?$/, 'must be 0s to 60s').transform(
  (value) => Number.parseInt(value, 10) * 1000,
);

/** Milliseconds or seconds, half a second to five, as `1500ms` or `3s`; in ms. */
const heartbeat = matching(/^([1-5]s|[0-9]{3,4}ms)$/, 'must be 500ms to 5s')
  .transform((value) => Number.parseInt(value, 10) * (value.endsWith('ms') ? 1 : 1000))
  .pipe(z.number().min(500, 'must be 500ms to 5s').max(5000, 'must be 500ms to 5s'));

/** How many shards a service may be cut into. */
const MAX_SHARDS = 16_384;

const WEIGHT_EXPECTED = 'must be 0.1 to 100, with two decimals at most';

/** Most origins in PIPELINED_ORIGINS. */
const MAX_PIPELINED = 100;

const folder = z.string().startsWith('/', 'must be an absolute path').optional();

const egressAllow = readBy(
  parseEgress,
  'must be at most 64 IPv4 networks or addresses such as 10.1.2.0/24, separated by commas',
);

/** Networks of either family, as a question. */
const webhookAllow = readBy(
  parseNetworks,
  'must be at most 64 networks or addresses such as 10.1.2.0/24 or fd00::/8, separated by commas',
);

/** Targets of routes, as addresses. */
const pipelinedOrigins = list(
  isTarget,
  `must be at most ${MAX_PIPELINED} targets of routes such as 10.0.0.7:8080, separated by commas`,
  MAX_PIPELINED,
).transform((targets) => targets.map(addressOf));

/** A host that others reach this process at. */
const advertised = z
  .string()
  .refine((host) => isTarget(`${host}:1`), 'must be a name or an address without a port, IPv6 in brackets');

/** The same, or all of them. */
const sharedOrigins = z.union([z.literal('all'), pipelinedOrigins]);

const sharedSecret = z
  .string()
  .refine((value) => Buffer.byteLength(value) >= MIN_SECRET_BYTES, `must be at least ${MIN_SECRET_BYTES} bytes`);

const variables = z.object({
  DATABASE_URL: url('postgres', 'postgresql'),
  DATABASE_DIRECT_URL: url('postgres', 'postgresql'),
  DATABASE_CONNECTIONS: digits(/^([3-9]|[1-9][0-9]{1,2})$/, 'must be 3 to 999').prefault('5'),
  NATS_URL: natsUrls.optional(),
  NATS_USER: text,
  NATS_PASSWORD: text,
  NATS_TOKEN: text,
  NATS_CREDS: text,
  NATS_CA: text,
  NATS_CERT: text,
  NATS_KEY: text,
  NATS_INSECURE: z.literal('allow', 'must be allow, or absent').optional(),
  NATS_REPLICAS: digits(/^[1-5]$/, 'must be 1 to 5').optional(),
  CLUSTER_SHARDS: digits(/^[1-9][0-9]{0,4}$/, `must be 1 to ${MAX_SHARDS}`)
    .pipe(z.number().max(MAX_SHARDS, `must be 1 to ${MAX_SHARDS}`))
    .optional(),
  CLUSTER_WEIGHT: digits(/^[0-9]{1,3}(\.[0-9]{1,2})?$/, WEIGHT_EXPECTED)
    .pipe(z.number().min(0.1, WEIGHT_EXPECTED).max(100, WEIGHT_EXPECTED))
    .prefault('1'),
  CLUSTER_HEARTBEAT: heartbeat.prefault('1500ms'),
  JWT_SECRET: sharedSecret.optional(),
  JWT_SECRET_NEXT: sharedSecret.optional(),
  JWT_SECRET_PREVIOUS: sharedSecret.optional(),
  METRICS_TOKEN: matching(/^[\x21-\x7e]{16,256}$/, 'must be 16 to 256 visible characters').optional(),
  ENCRYPTION_KEY: accepted(parseSealKey, 'must be 32 bytes in base64 or hex').optional(),
  NEW_ENCRYPTION_KEY: accepted(parseSealKey, 'must be 32 bytes in base64 or hex').optional(),
  ADMIN_USERNAME: usernameSchema.default('admin'),
  ADMIN_PASSWORD: z
    .string()
    .min(8, 'must be at least 8 characters')
    .max(256, 'must be at most 256 characters')
    .refine((value) => !isCommonPassword(value), 'must not be one of those that everybody tries first')
    .optional(),
  PLATFORM_DOMAIN: hostName.optional(),
  CONTAINERS_DOMAIN: hostName.optional(),
  WEBAUTHN_RP_ID: hostName.refine((value) => !/(^|\.)[0-9]+$/.test(value), 'must be a name, not an address').optional(),
  WEBAUTHN_ORIGINS: origins.optional(),
  REGISTRY: z.enum(['auto', 'off']).default('auto'),
  REGISTRY_HOST: matching(/^[a-z0-9.-]+(:[0-9]{1,5})?$/, 'must be a host name, with :port if it needs one').optional(),
  REGISTRY_ADDRESS: matching(/^[a-z0-9.-]+:[0-9]{1,5}$/, 'must be host:port, as in troupe-registry:5000').optional(),
  REGISTRY_FRONT: z.enum(['none', 'store', 'bucket']).default('none'),
  REGISTRY_ISSUER: matching(/^[\x21-\x7e]{1,256}$/, 'must be 1 to 256 visible characters').default('troupe'),
  REGISTRY_SIGNING_KEY: registryKey.optional(),
  REGISTRY_S3_BUCKET: matching(/^[a-z0-9][a-z0-9._-]{1,62}$/, 'must be the name of a bucket').optional(),
  REGISTRY_S3_REGION: matching(/^[a-z0-9-]{1,64}$/, 'must be a region, as in eu-central-1').default('us-east-1'),
  REGISTRY_S3_ENDPOINT: matching(/^https?:\/\/[^\s/]+\/?$/, 'must be http:// or https:// and a host').optional(),
  REGISTRY_S3_ACCESS_KEY: matching(/^[\x21-\x7e]{1,256}$/, 'must be 1 to 256 visible characters').optional(),
  REGISTRY_S3_SECRET_KEY: matching(/^[\x21-\x7e]{1,256}$/, 'must be 1 to 256 visible characters').optional(),
  REGISTRY_USER_MB: digits(/^[0-9]{1,9}$/, 'must be a number of MiB, or 0 for no limit').prefault('20480'),
  DEFAULT_IMAGE: text,
  CATALOG_IMAGES: matching(
    /^[a-z0-9.-]+(:[0-9]{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)+\/?$/,
    'must be where images of a registry are, such as registry.example.com/library/',
  )
    .transform((place) => place.replace(/\/?$/, '/'))
    .optional(),
  COMPUTE_ENGINE: z.enum(['docker', 'kubernetes']).default('docker'),
  KUBECONFIG: text,
  KUBERNETES_NAMESPACE: text,
  KUBERNETES_STORAGE_CLASS: text,
  KUBERNETES_CLUSTER_DOMAIN: matching(
    /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/,
    'must be a domain, such as cluster.local',
  ).default('cluster.local'),
  KUBERNETES_ARCHITECTURE: z.enum(['type', 'any']).default('type'),
  KUBERNETES_USER_NAMESPACES: z.enum(['off', 'on']).default('off'),
  KUBERNETES_SERVICE_TYPE: z.enum(['LoadBalancer', 'ClusterIP']).default('LoadBalancer'),
  DOCKER_HOST: url('unix', 'tcp', 'ssh'),
  DOCKER_TLS_VERIFY: text,
  DOCKER_CERT_PATH: folder,
  DOCKER_SSH_CONFIG: folder,
  SSH_AUTH_SOCK: text,
  DISK_PATHS: list((path) => path.startsWith('/'), 'must be absolute paths of folders, separated by commas').optional(),
  CONTAINER_SUBNETS: accepted(
    parsePool,
    'must be private addresses in the form 10.192.0.0/10, /29 at the smallest',
  ).optional(),
  EGRESS_ALLOW: egressAllow.default([]),
  FILES_MAX_MB: z
    .string()
    .regex(/^[1-9][0-9]{0,3}$/, 'must be 1 to 8000')
    .transform(Number)
    .pipe(z.int().max(8000, 'must be 1 to 8000'))
    .default(DEFAULT_FILES_MAX_MB),
  TRUSTED_PROXIES: z
    .string()
    .refine(
      (value) => parseTrusted(value) !== undefined,
      'must be addresses or networks such as 10.0.0.0/8, separated by commas',
    )
    .optional(),
  PIPELINED_ORIGINS: pipelinedOrigins.optional(),
  CACHE_SHARED_ORIGINS: sharedOrigins.optional(),
  ADVERTISE_ADDRESS: advertised.optional(),
  HSTS: z.enum(['auto', 'off', 'forget']).default('auto'),
  ACME_DIRECTORY_URL: url('https'),
  ACME_CA_FILE: text,
  ACME_EMAIL: matching(/^[^\s@,;]{1,64}@[^\s@,;]{1,190}$/, 'must be one e-mail address').optional(),
  ACME_EAB_KID: text,
  ACME_EAB_HMAC_KEY: matching(/^[A-Za-z0-9_-]+=*$/, 'must be base64url').optional(),
  INGRESS_HOST: hostName.optional(),
  DNS_RESOLVERS: resolvers.optional(),
  DNS_PROVIDER_URL: url('http', 'https'),
  WEBHOOK_ALLOW: webhookAllow.optional(),
  SMTP_URL: smtpUrl.optional(),
  SMTP_FROM: mailSender.optional(),
  SMTP_INSECURE: z.literal('allow', 'must be allow, or absent').optional(),
  CHANGES_BURST: digits(/^[1-9][0-9]{0,5}$/, 'must be 1 to 999999').optional(),
  CHANGES_PER_SECOND: digits(/^[1-9][0-9]{0,4}$/, 'must be 1 to 99999').optional(),
  CHANGES_PER_MINUTE: digits(/^[1-9][0-9]{0,5}$/, 'must be 1 to 999999').optional(),
  ...USER_LIMIT_VARIABLES,
  SESSION_TTL: seconds.prefault('24h'),
  LEAVE_DELAY: leaveDelay.optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  TRACE_EVERY: digits(/^[0-9]{1,9}$/, 'must be 0 or a number of requests').prefault('100'),
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).optional(),
  HTTP_ADAPTER: z.enum(['auto', 'own', 'uws', 'node']).default('auto'),
  GATEWAY_IO: z.enum(['auto', 'streams']).default('auto'),
});

/** What concerns several variables. */
const environmentSchema = variables.superRefine((environment, context) => {
  const problem = dockerProblem(environment);
  if (problem !== undefined) context.addIssue({ code: 'custom', path: ['DOCKER_HOST'], message: problem });
  if (environment.DATABASE_DIRECT_URL !== undefined && environment.DATABASE_URL === undefined) {
    const message = 'is the server behind the pooler of DATABASE_URL, which is missing';
    context.addIssue({ code: 'custom', path: ['DATABASE_DIRECT_URL'], message });
  }
  if ((environment.SMTP_URL === undefined) !== (environment.SMTP_FROM === undefined)) {
    const missing = environment.SMTP_URL === undefined ? 'SMTP_URL' : 'SMTP_FROM';
    context.addIssue({ code: 'custom', path: [missing], message: 'is missing: mail needs SMTP_URL and SMTP_FROM' });
  }
});

/** The environment as read: names as operators know them. */
export type Environment = z.output<typeof environmentSchema>;

/** Reads the environment once. Throws CliError that names each bad variable; empty ones count as absent. */
export function readEnvironment(env: Readonly<Record<string, string | undefined>>): Environment {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const result = environmentSchema.safeParse(given, { error: validationMessage });
  if (result.success) return result.data;
  const lines = result.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`);
  throw new CliError(`The environment is not valid:\n${lines.join('\n')}`);
}

function accepts(read: (text: string) => unknown): (text: string) => boolean {
  return (text) => {
    try {
      read(text);
      return true;
    } catch {
      return false;
    }
  };
}

function isTarget(text: string): boolean {
  return targetSchema.safeParse(text).success;
}

function isOrigin(value: string): boolean {
  return /^https?:/.test(value) && URL.canParse(value) && new URL(value).origin === value;
}

/** Default parent domain: `*.localhost` is this machine everywhere (RFC 6761, section 6.3). */
export const DEFAULT_DOMAIN = 'troupe.localhost';

/** Default ports of the services. */
const PORTS = {
  auth: 7001,
  compute: 7002,
  net: 7003,
  monitor: 7004,
  notify: 7005,
  http: 18_080,
  https: 8443,
  ssh: 2222,
} as const;

/** Where the registry of `up` listens, on loopback; 0: on any free port. Another one where that is taken. */
export function registryPort(offset: number): number {
  return offset === -1 ? 0 : 7006 + offset;
}

/** A port for each listener. */
export type Ports = { readonly [name in keyof typeof PORTS]: number };

/** The ports with the operator's offset. Offset -1 is for tests: every service takes any free port. */
export function portsWith(offset: number): Ports {
  const move = (port: number) => (offset === -1 ? 0 : port + offset);
  const ports = {
    auth: move(PORTS.auth),
    compute: move(PORTS.compute),
    net: move(PORTS.net),
    monitor: move(PORTS.monitor),
    notify: move(PORTS.notify),
    http: move(PORTS.http),
    https: move(PORTS.https),
    ssh: move(PORTS.ssh),
  };
  if (!Object.values(ports).every((value) => port.safeParse(value).success)) {
    throw new CliError('--port-offset must leave all ports between 0 and 65535: choose a number from 0 to 40000.');
  }
  return ports;
}

/** Where the networking API listens: nobody reaches it but through the gateway, which is on the same machine. */
export const NETWORK_HOST = '127.0.0.1';

const EXPECTED = 'must be a PEM with an EC P-256 private key, or the path of a file with one';
/** Far more than a key with its chain takes. */
const MAX_BYTES = 256 * 1024;

/** Reads the key. Throws RegistryKeyError, which says what was expected and shows nothing of the value. */
function readRegistryKey(value: string): RegistryKey {
  return parseRegistryKey(value.includes('-----BEGIN') ? value.replaceAll('\\n', '\n') : readKeyFile(value));
}

function readKeyFile(path: string): string {
  try {
    const stats = statSync(path);
    if (stats.isFile() && stats.size <= MAX_BYTES) return readFileSync(path, 'utf8');
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
    throw new RegistryKeyError(`${EXPECTED}: there is none that can be read${code}`, cause);
  }
  throw new RegistryKeyError(`${EXPECTED}: this is no such file`);
}

/** The text of the file that the variable `name` has; undefined without one. Throws CliError. */
export function fileOf(name: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new CliError(`${name} is ${path}, which cannot be read.`, { cause });
  }
}
