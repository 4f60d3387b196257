/** What the endpoints of the compute service are made from: fields, limits and scopes of a container. */
import { z } from 'zod';
import { cacheModeSchema } from '../gateway/cache-mode.ts';
import { idSchema } from '../ids.ts';
import { USER_LIMITS } from '../user-limits.ts';
import { wholeNumberOf } from '../whole-number.ts';
import { healthStateSchema } from './health.ts';

/** Instance types: architecture and CPU cores. */
export const INSTANCE_TYPES = {
  nano: { architecture: 'arm64', cpus: 0.5 },
  micro: { architecture: 'arm64', cpus: 1 },
  mini: { architecture: 'arm64', cpus: 2 },
  tiny: { architecture: 'amd64', cpus: 1 },
  small: { architecture: 'amd64', cpus: 2 },
  medium: { architecture: 'amd64', cpus: 4 },
} as const;

export const instanceTypeSchema = z.enum(['nano', 'micro', 'mini', 'tiny', 'small', 'medium']);
export const statusSchema = z.enum(['pending', 'initializing', 'running', 'stopped', 'failed']);
export const pullPolicySchema = z.enum(['Always', 'IfNotPresent']);

/** Where a container is in its life. */
export type ContainerStatus = z.output<typeof statusSchema>;

export const containerNameSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$/,
    'must be 1 to 63 letters, digits, spaces, ".", "_", "-", starting with a letter or digit',
  );

/** What a container may use, the keys that are let in, and its image: as at creation, so when it is changed. */
export const memorySchema = z.int().min(128).max(65_536);
export const storageSchema = z.int().min(1).max(1024);
export const sshKeyIdsSchema = z
  .array(z.int().min(1).max(2_147_483_647))
  .min(1, 'must name at least one of your SSH keys')
  .max(USER_LIMITS.ssh_keys.most);
export const imageSchema = z.string().max(512);
/** When its time is over: it is stopped then, and deleted a day later. */
export const expiresAtSchema = z.iso.datetime({ offset: true, error: 'must be a time such as 2030-01-31T12:00:00Z' });

/** Paths of the kernel, the system or the platform: persisting them would break the container, or let it out. */
const RESERVED_TREES = [
  '/proc',
  '/sys',
  '/dev',
  '/run',
  '/var/run',
  '/boot',
  '/bin',
  '/sbin',
  '/lib',
  '/lib64',
  '/usr/bin',
  '/usr/sbin',
  '/usr/lib',
  '/etc/ssh',
  '/etc/troupe',
];
/** Paths that cannot be persisted themselves, though folders inside them can. */
const RESERVED_PATHS = ['/etc', '/usr', '/var', '/tmp'];

function isReserved(path: string): boolean {
  return RESERVED_PATHS.includes(path) || RESERVED_TREES.some((tree) => path === tree || path.startsWith(`${tree}/`));
}

/**
 * One absolute path to persist: normal form, no `.` or `..`, nothing that the system owns, no `:` (a mount separator).
 */
const mountPathSchema = z
  .string()
  .max(255, 'must be at most 255 characters')
  .regex(
    /^(\/[A-Za-z0-9_@+.-]+)+$/,
    'must be an absolute path of letters, digits and "_@+.-", without a trailing slash',
  )
  .refine(
    (path) => !path.split('/').some((part) => part === '.' || part === '..'),
    'must not contain "." or ".." segments',
  )
  .refine((path) => !isReserved(path), 'is a path the system needs: choose one such as /root or /data');

export const mountPathsSchema = z
  .array(mountPathSchema)
  .min(1, 'must name at least one path')
  .max(16, 'must name at most 16 paths')
  .refine((paths) => new Set(paths).size === paths.length, 'must not name a path twice')
  .refine(
    (paths) => !paths.some((a) => paths.some((b) => b.startsWith(`${a}/`))),
    'must not name a path inside another',
  );

/**
 * Who ends TLS at an external port: the container, which gets it as it came, or the platform, which speaks HTTP to it.
 */
export const ingressTlsSchema = z.enum(['container', 'platform']);

/**
 * Whom the gateway lets through at an external port where it ends TLS: everybody, whoever has the password, or the
 * owner alone.
 */
export const ingressAccessSchema = z.enum(['public', 'password', 'mine']);

/** The password of such a port. */
export const ingressPasswordSchema = z
  .string()
  .min(8, 'must have 8 characters at least')
  .max(128, 'must have 128 characters at most')
  .regex(/^\P{Cc}*$/u, 'must have no control characters');

const createFields = {
  id: z.string(),
  name: z.string(),
  status: statusSchema,
  hostname: z.string(),
  memory_mb: z.int(),
  storage_gb: z.int(),
  instance_type: instanceTypeSchema,
  created_at: z.iso.datetime(),
  ssh_enabled: z.boolean(),
  https_enabled: z.boolean(),
  pull_policy: pullPolicySchema,
};

/** A container as create, start and stop answer it. */
export const containerCreatedSchema = z.object(createFields);

/** A container as list and get answer it. */
export const containerSchema = z.object({
  ...createFields,
  memory_used_mb: z.int(),
  storage_used_gb: z.number(),
  /** The command with the container's hostname, without a port. `ssh` holds one that works as it stands. */
  ssh_command: z.string(),
  /** How it is reached by SSH through the gateway, while SSH is enabled. */
  ssh: z.object({ command: z.string(), host: z.string(), port: z.int(), user: z.string() }).optional(),
  /**
   * Why it failed, or what it waits for while it is `pending` or `initializing`: its image and how far that is, the
   * container engine, its SSH port; the last error and when the next try is; the crash after which it restarts. A
   * sentence for people, of any wording. Absent when there is nothing to say.
   */
  status_reason: z.string().optional(),
  image: z.string().optional(),
  /** It is held to this digest of its image, as after a way back; absent: it follows the tag. */
  image_digest: z.string().optional(),
  /** The image that is being pulled for it: it is made anew from that, and restarted, once it is there. */
  next_image: z.string().optional(),
  ssh_key_ids: z.array(z.int()).optional(),
  mount_paths: z.array(z.string()).optional(),
  /** Whether another image takes its place while it runs, so that there is no pause. */
  changes_without_pause: z.boolean().optional(),
  /** Whether that is so although it has mount paths. Absent: it is not. */
  overlap: z.boolean().optional(),
  /** Its ingress rules: external port, and the port in the container. */
  ports: z
    .array(
      z.object({
        port: z.int(),
        target_port: z.int(),
        tls: ingressTlsSchema.optional(),
        access: ingressAccessSchema.optional(),
        cache: cacheModeSchema.optional(),
      }),
    )
    .optional(),
  /** When its time is over. Absent: never. */
  expires_at: z.iso.datetime().optional(),
  /** It is also reached at this name in the place of its id in `hostname`. Absent: it has none. */
  address_name: z.string().optional(),
  /** What it may reach: "none", or networks. Absent: all that containers may. */
  egress: z.union([z.literal('none'), z.array(z.string())]).optional(),
  /** The private network it is in, and the name by which the other members find it. Absent while it has none. */
  network: z.string().optional(),
  alias: z.string().optional(),
  /** Its last start. Absent while it was never started. */
  started_at: z.iso.datetime().optional(),
  /** The end of its last run, and the exit code of that. They stay when it is started again. */
  ended_at: z.iso.datetime().optional(),
  exit_code: z.int().optional(),
  /** How often the platform started it again after a crash, since its user started it. */
  restarts: z.int().optional(),
  /** Null: its settings say nothing of health, or it is not to run. Older nodes leave it out. */
  health: healthStateSchema.nullable().optional(),
  /** What the last look at its health found, unless it is healthy. A sentence for people, of any wording. */
  health_reason: z.string().optional(),
});
/** A container as create and start answer it: as list and get do when they waited for it, else the fields of create. */
export const containerBegunSchema = containerSchema.partial({
  memory_used_mb: true,
  storage_used_gb: true,
  ssh_command: true,
});

/** How long a reply may wait, seconds: the gateway gives up on an answer after a minute. */
const MAX_WAIT_SECONDS = 50;
const DEFAULT_WAIT_SECONDS = 25;

/** What a reply waits for, and how long at most. */
export const waitQuery = {
  /** `running`: until it runs and is not `starting` as to its health, or has failed, or is stopped. */
  wait: z.enum(['running']).optional(),
  timeout: wholeNumberOf({ min: 1, max: MAX_WAIT_SECONDS }).default(DEFAULT_WAIT_SECONDS),
} as const;
export type ContainerView = z.input<typeof containerSchema>;
export type ContainerCreatedView = z.input<typeof containerCreatedSchema>;

/** The ports a rule can listen on from outside. */
export const externalPortSchema = z
  .int()
  .refine((port) => port === 80 || port === 443 || (port >= 8000 && port <= 8999), 'must be 80, 443, or 8000 to 8999');

export const containerParams = z.object({ id: idSchema });
export const ok = z.object({ status: z.literal('ok') });
export const byUser = { kind: 'compute/user', key: 'caller' } as const;
const byContainer = { kind: 'compute/container', key: 'param', param: 'id' } as const;
export const common = { service: 'compute', access: 'token' } as const;

/** What the endpoints of the caller's containers share. `action`: what an API token must be allowed to do with them. */
export const ofContainers = (action: string) =>
  ({ ...common, scope: { key: (uid: string) => `compute.${uid}.containers`, action }, actor: byUser }) as const;

/** The same of one container. */
export const ofContainer = (action: string) => {
  const key = (uid: string, params: Readonly<Record<string, string>>) => `compute.${uid}.containers.${params.id}`;
  return { ...common, scope: { key, action }, params: containerParams, actor: byContainer } as const;
};
