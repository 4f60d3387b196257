/** The compute service's endpoints and views. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { idSchema } from '../ids.ts';
import {
  computeEventSchema,
  containerCreatedSchema,
  containerNameSchema,
  containerSchema,
  externalPortSchema,
  instanceTypeSchema,
  mountPathsSchema,
  ofContainer,
  ofUser,
  ok,
  pullPolicySchema,
  wholeNumber,
} from './fields.ts';

export {
  type ComputeEvent,
  type ContainerCreatedView,
  type ContainerStatus,
  type ContainerView,
  computeEventSchema,
  containerCreatedSchema,
  containerSchema,
  INSTANCE_TYPES,
  type InstanceType,
  instanceTypeSchema,
  mountPathSchema,
  type PullPolicy,
  pullPolicySchema,
  statusSchema,
} from './fields.ts';

/** What one user may have. */
export const MAX_CONTAINERS = 3;
export const MAX_SSH_KEYS = 10;
/** How often the mount paths of one container can be changed: each time adds a layer to its files. */
export const MAX_MOUNT_CHANGES = 64;
export const DEFAULT_LOG_TAIL = 100;
const MAX_LOG_TAIL = 10_000;
/** A time of RFC 3339, section 5.6, of the years 0000 to 9999, to the nanosecond. */
const STAMP = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/;
/** An id that a client chose for its terminal, so that it can come back to it: at random, of 16 characters or more. */
const TERMINAL_SESSION = /^[A-Za-z0-9_-]{16,64}$/;
/** Terminals with an id of their own that one user may have at a time, with or without a client. */
export const MAX_TERMINAL_SESSIONS = 16;
/** Sockets of each kind that one user may have open. */
export const MAX_SOCKETS = { logs: 50, terminals: 20, updates: 20 } as const;

/** An SSH key, as it is shown. */
const sshKeySchema = z.object({
  id: z.int(),
  name: z.string(),
  public_key: z.string(),
  created_at: z.iso.datetime(),
});

export const listContainers = endpoint({
  ...ofUser('.containers', 'read'),
  name: 'listContainers',
  method: 'GET',
  path: '/compute/containers',
  summary: 'Your containers',
  reply: z.object({ containers: z.array(containerSchema) }),
});

export const createContainer = endpoint({
  ...ofUser('.containers', 'create'),
  name: 'createContainer',
  method: 'POST',
  path: '/compute/containers',
  summary: 'Create a container',
  // Strict: a field we do not know (privileged, network, ...) is refused, never passed by.
  body: z.strictObject({
    name: containerNameSchema,
    instance_type: instanceTypeSchema.default('nano'),
    memory_mb: z.int().min(128).max(65_536).default(512),
    storage_gb: z.int().min(1).max(1024).default(5),
    ssh_key_ids: z
      .array(z.int().min(1).max(2_147_483_647))
      .min(1, 'must name at least one of your SSH keys')
      .max(MAX_SSH_KEYS),
    ssh_enabled: z.boolean().default(false),
    mount_paths: mountPathsSchema.default(['/root']),
    image: z.string().max(512).optional(),
    pull_policy: pullPolicySchema.default('IfNotPresent'),
  }),
  reply: containerCreatedSchema,
  refuses: ['limit_reached'],
});

export const getContainer = endpoint({
  ...ofContainer('read'),
  name: 'getContainer',
  method: 'GET',
  path: '/compute/containers/{id}',
  summary: 'One container',
  reply: containerSchema,
});

export const deleteContainer = endpoint({
  ...ofContainer('delete'),
  name: 'deleteContainer',
  method: 'DELETE',
  path: '/compute/containers/{id}',
  summary: 'Delete a container and its data',
  reply: ok,
});

export const startContainer = endpoint({
  ...ofContainer('start'),
  name: 'startContainer',
  method: 'POST',
  path: '/compute/containers/{id}/start',
  summary:
    'Start a stopped or failed container. One whose data is gone begins with empty folders only with `discard=true`',
  query: z.object({ discard: z.enum(['true', 'false']).default('false') }),
  reply: containerCreatedSchema,
  refuses: ['conflict'],
});

export const stopContainer = endpoint({
  ...ofContainer('stop'),
  name: 'stopContainer',
  method: 'POST',
  path: '/compute/containers/{id}/stop',
  summary: 'Stop a container; its persistent paths are kept',
  reply: containerCreatedSchema,
  refuses: ['conflict'],
});

export const listSshKeys = endpoint({
  ...ofUser('.keys', 'read'),
  name: 'listSshKeys',
  method: 'GET',
  path: '/compute/ssh-keys',
  summary: 'Your SSH public keys',
  reply: z.object({ ssh_keys: z.array(sshKeySchema) }),
});

export const createSshKey = endpoint({
  ...ofUser('.keys', 'create'),
  name: 'createSshKey',
  method: 'POST',
  path: '/compute/ssh-keys',
  summary: 'Add an SSH public key',
  body: z.object({
    name: z
      .string()
      .trim()
      .min(1, 'must not be empty')
      .max(64, 'must be at most 64 characters')
      .regex(/^[^\p{Cc}]*$/u, 'must not contain control characters'),
    public_key: z.string().max(16_384),
  }),
  reply: sshKeySchema,
  refuses: ['limit_reached', 'conflict'],
});

export const deleteSshKey = endpoint({
  ...ofUser('.keys', 'delete'),
  name: 'deleteSshKey',
  method: 'DELETE',
  path: '/compute/ssh-keys/{id}',
  summary: 'Delete an SSH public key',
  params: z.object({ id: wholeNumber(/^[1-9][0-9]{0,9}$/) }),
  reply: ok,
});

export const computeSocket = endpoint({
  ...ofUser('', 'read'),
  name: 'computeSocket',
  method: 'GET',
  path: '/compute/ws',
  summary: 'The list of your containers, then every change of status',
  reply: computeEventSchema,
  socket: true,
});

export const terminal = endpoint({
  ...ofContainer('update'),
  name: 'terminal',
  method: 'GET',
  path: '/compute/containers/{id}/terminal',
  summary:
    'A shell in the container: frames are what is typed and printed; a text frame {"type":"resize","cols","rows"} ' +
    'sets the size',
  query: z.object({
    /**
     * Whoever connects again with it within 30 s of a lost connection is in the same shell (docs/reference/streams.md).
     */
    session: z
      .string()
      .regex(TERMINAL_SESSION, 'must be 16 to 64 letters, digits, "_" or "-", chosen at random')
      .optional(),
    /** `lines`: each text frame is a line, and Enter is pressed after it: for clients that send lines without ends. */
    input: z.enum(['bytes', 'lines']).default('bytes'),
  }),
  refuses: ['not_running', 'limit_reached'],
  socket: true,
});

export const logs = endpoint({
  ...ofContainer('read'),
  name: 'logs',
  method: 'GET',
  path: '/compute/containers/{id}/logs',
  summary:
    'Log lines, one a message: the newest `tail` (100 by default), then as they come. `since`, the stamp of the ' +
    'last line received, resumes a log',
  query: z.object({
    /** Without `since` the default is DEFAULT_LOG_TAIL, with it all that is later. */
    tail: wholeNumber(/^[0-9]{1,6}$/)
      .pipe(z.int().max(MAX_LOG_TAIL, `must be at most ${MAX_LOG_TAIL}`))
      .optional(),
    since: z
      .string()
      .regex(STAMP, 'must be an RFC 3339 time such as 2026-01-31T12:00:00.123456789Z')
      .refine((stamp) => !Number.isNaN(Date.parse(stamp)), 'must be a time that exists')
      .optional(),
  }),
  refuses: ['not_running'],
  socket: true,
});

/** Control frames a terminal takes. */
export const resizeSchema = z.object({
  type: z.literal('resize'),
  cols: z.int().min(1).max(1000),
  rows: z.int().min(1).max(1000),
});

const sshSchema = z.object({ ssh_enabled: z.boolean() });

/** An ingress rule, as it is shown. */
const ingressSchema = z.object({
  id: z.int(),
  port: z.int(),
  target_port: z.int(),
  /** Unix seconds. */
  created_at: z.int(),
});
export type IngressView = z.input<typeof ingressSchema>;

export const getSsh = endpoint({
  ...ofContainer('read'),
  name: 'getSsh',
  method: 'GET',
  path: '/compute/containers/{id}/ssh',
  summary: 'Whether SSH access is enabled',
  reply: sshSchema,
});

export const setSsh = endpoint({
  ...ofContainer('update'),
  name: 'setSsh',
  method: 'PUT',
  path: '/compute/containers/{id}/ssh',
  summary: 'Enable or disable SSH access; disabling ends open sessions',
  body: sshSchema,
  reply: sshSchema,
});

export const listIngress = endpoint({
  ...ofContainer('read'),
  name: 'listIngress',
  method: 'GET',
  path: '/compute/containers/{id}/ingress',
  summary: 'The ingress rules: which external port leads to which port of the container',
  reply: z.object({ rules: z.array(ingressSchema) }),
});

export const addIngress = endpoint({
  ...ofContainer('update'),
  name: 'addIngress',
  method: 'POST',
  path: '/compute/containers/{id}/ingress',
  summary: 'Add an ingress rule; one on port 443 enables HTTPS',
  body: z
    .object({
      port: externalPortSchema,
      target_port: z.int().min(1, 'must be 1 to 65535').max(65_535, 'must be 1 to 65535').optional(),
    })
    .transform(({ port, target_port }) => ({ port, target_port: target_port ?? port })),
  reply: ingressSchema,
  refuses: ['conflict'],
});

export const deleteIngress = endpoint({
  ...ofContainer('update'),
  name: 'deleteIngress',
  method: 'DELETE',
  path: '/compute/containers/{id}/ingress/{port}',
  summary: 'Remove the ingress rule of an external port',
  params: z.object({ id: idSchema, port: wholeNumber(/^[1-9][0-9]{0,4}$/) }),
  reply: ok,
});

export const getMounts = endpoint({
  ...ofContainer('read'),
  name: 'getMounts',
  method: 'GET',
  path: '/compute/containers/{id}/mounts',
  summary: 'The paths whose data is kept',
  reply: z.object({ mount_paths: z.array(z.string()) }),
});

export const setMounts = endpoint({
  ...ofContainer('update'),
  name: 'setMounts',
  method: 'PUT',
  path: '/compute/containers/{id}/mounts',
  summary:
    'Replace the paths whose data is kept; a running container is restarted. Where the engine cannot carry over ' +
    'the files outside them, `discard` must say that they may go',
  body: z.object({ mount_paths: mountPathsSchema, discard: z.boolean().default(false) }),
  reply: z.object({ mount_paths: z.array(z.string()), restarted: z.boolean() }),
  refuses: ['discards_files', 'limit_reached', 'too_many_changes'],
});

export const setPullPolicy = endpoint({
  ...ofContainer('update'),
  name: 'setPullPolicy',
  method: 'PUT',
  path: '/compute/containers/{id}/pull-policy',
  summary: 'Whether each start pulls the image anew; counts from the next start',
  body: z.object({ pull_policy: pullPolicySchema }),
  reply: z.object({ pull_policy: pullPolicySchema }),
});

/** An image that containers can start from. */
const imageSchema = z.object({
  name: z.string(),
  image: z.string(),
  source: z.enum(['builtin', 'registry']),
});
export type ImageView = z.input<typeof imageSchema>;

/** A container as the administrator sees it: with its owner, and the time as Unix seconds. */
const adminContainerSchema = containerSchema.extend({
  created_at: z.int(),
  user_id: z.string(),
  /** The user's name. */
  owner: z.string(),
  /** Empty while it does not run. */
  external_ip: z.string(),
});
export type AdminContainerView = z.input<typeof adminContainerSchema>;

export const listImages = endpoint({
  ...ofUser('.containers', 'read'),
  name: 'listImages',
  method: 'GET',
  path: '/compute/images',
  summary: 'Images a container can be made from: the default one, and what the registry has for you',
  reply: z.array(imageSchema),
});

export const listAllContainers = endpoint({
  name: 'listAllContainers',
  service: 'compute',
  method: 'GET',
  path: '/compute/admin/containers',
  summary: 'The containers of all users',
  access: 'admin',
  reply: z.array(adminContainerSchema),
  actor: { kind: 'compute/listing', key: 'none' },
});

/** All endpoints of the service. */
export const computeEndpoints = [
  listContainers,
  createContainer,
  getContainer,
  deleteContainer,
  startContainer,
  stopContainer,
  listSshKeys,
  createSshKey,
  deleteSshKey,
  listImages,
  listAllContainers,
  getSsh,
  setSsh,
  listIngress,
  addIngress,
  deleteIngress,
  getMounts,
  setMounts,
  setPullPolicy,
  computeSocket,
  terminal,
  logs,
] as const;
