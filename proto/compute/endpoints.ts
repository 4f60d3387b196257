/** The compute service's endpoints and views. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { addressNameSchema } from './address-names.ts';
import { egressSchema } from './egress.ts';
import { execContainer } from './exec.ts';
import {
  byUser,
  common,
  containerBegunSchema,
  containerCreatedSchema,
  containerNameSchema,
  containerSchema,
  expiresAtSchema,
  imageSchema,
  instanceTypeSchema,
  memorySchema,
  mountPathsSchema,
  ofContainer,
  ofContainers,
  ok,
  pullPolicySchema,
  sshKeyIdsSchema,
  statusSchema,
  storageSchema,
  waitQuery,
} from './fields.ts';
import { readFiles, removeFiles, writeFiles } from './files.ts';
import { adminDeleteContainer, adminStopContainer, listAllContainers, listImages } from './images.ts';
import { logs, readLogs } from './logs.ts';
import { listAddressNames } from './name-listing.ts';
import { networkAliasSchema, networkNameSchema } from './networks.ts';
import { listRevisions } from './revisions.ts';
import {
  addIngress,
  changeIngress,
  deleteIngress,
  enterIngress,
  forgetAnswers,
  getMounts,
  getSsh,
  listIngress,
  setMounts,
  setPullPolicy,
  setSsh,
  updateContainer,
} from './settings.ts';
import { endingFields, getSettings, workloadFields } from './workload.ts';

/** How often the mount paths of one container can be changed: each time adds a layer to its files. */
export const MAX_MOUNT_CHANGES = 64;
/** An id that a client chose for its terminal, so that it can come back to it: at random, of 16 characters or more. */
const TERMINAL_SESSION = /^[A-Za-z0-9_-]{16,64}$/;
/** Terminals with an id of their own that one user may have at a time, with or without a client. */
export const MAX_TERMINAL_SESSIONS = 16;

/** An SSH key, as it is shown. */
const sshKeySchema = z.object({
  id: z.int(),
  name: z.string(),
  public_key: z.string(),
  created_at: z.iso.datetime(),
  /** It opens the account by SSH, and not only containers. Older nodes leave it out. */
  login: z.boolean().optional(),
});

const ofKeys = (action: string) =>
  ({ ...common, scope: { key: (uid: string) => `compute.${uid}.keys`, action }, actor: byUser }) as const;

export const listContainers = endpoint('listContainers', 'GET /compute/containers', {
  ...ofContainers('read'),
  summary: 'Your containers',
  reply: z.object({ containers: z.array(containerSchema) }),
});

/** What a container is made with. */
// Strict: a field we do not know (privileged, host_network, ...) is refused, never passed by.
export const newContainerSchema = z.strictObject({
  name: containerNameSchema,
  instance_type: instanceTypeSchema.default('nano'),
  memory_mb: memorySchema.default(512),
  storage_gb: storageSchema.default(5),
  ssh_key_ids: sshKeyIdsSchema,
  ssh_enabled: z.boolean().default(false),
  mount_paths: mountPathsSchema.default(['/root']),
  /** It has no mount paths, whatever `mount_paths` says: nothing is kept, and another image needs no pause. */
  stateless: z.boolean().default(false),
  image: imageSchema.optional(),
  pull_policy: pullPolicySchema.default('IfNotPresent'),
  /** The private network that it joins, and the name by which the other members find it there. */
  network: networkNameSchema.optional(),
  alias: networkAliasSchema.optional(),
  /** It is reached at this name, too, in the place of its id in its hostname. */
  address_name: addressNameSchema.optional(),
  /** It is stopped then, and deleted a day later. */
  expires_at: expiresAtSchema.optional(),
  /** Another image begins beside it although it has mount paths: two write to them meanwhile. */
  overlap: z.boolean().default(false),
  /** What it may reach. */
  egress: egressSchema.default('any'),
  ...workloadFields,
  ...endingFields,
});

export const createContainer = endpoint('createContainer', 'POST /compute/containers', {
  ...ofContainers('create'),
  idempotent: 'key',
  summary:
    'Create a container. With `wait=running` the reply comes when it runs or has failed, or after `timeout` seconds',
  query: z.object(waitQuery),
  body: newContainerSchema,
  reply: containerBegunSchema,
  refuses: ['limit_reached', 'conflict'],
});

export const getContainer = endpoint('getContainer', 'GET /compute/containers/{id}', {
  ...ofContainer('read'),
  summary: 'One container',
  reply: containerSchema,
});

export const deleteContainer = endpoint('deleteContainer', 'DELETE /compute/containers/{id}', {
  ...ofContainer('delete'),
  rateLimit: 'removal',
  summary: 'Delete a container and its data',
  reply: ok,
});

export const startContainer = endpoint('startContainer', 'POST /compute/containers/{id}/start', {
  ...ofContainer('start'),
  idempotent: 'key',
  summary:
    'Start a stopped or failed container. One whose data is gone begins with empty folders only with ' +
    '`discard=true`. With `wait=running` the reply comes when it runs or has failed, or after `timeout` seconds',
  query: z.object({ discard: z.enum(['true', 'false']).default('false'), ...waitQuery }),
  reply: containerBegunSchema,
  refuses: ['conflict'],
});

export const stopContainer = endpoint('stopContainer', 'POST /compute/containers/{id}/stop', {
  ...ofContainer('stop'),
  idempotent: 'key',
  rateLimit: 'removal',
  summary: 'Stop a container; its persistent paths are kept',
  reply: containerCreatedSchema,
  refuses: ['conflict'],
});

export const listSshKeys = endpoint('listSshKeys', 'GET /compute/ssh-keys', {
  ...ofKeys('read'),
  summary: 'Your SSH public keys',
  reply: z.object({ ssh_keys: z.array(sshKeySchema) }),
});

export const createSshKey = endpoint('createSshKey', 'POST /compute/ssh-keys', {
  ...ofKeys('create'),
  idempotent: 'key',
  summary: 'Add an SSH public key',
  body: z.object({
    name: z
      .string()
      .trim()
      .min(1, 'must not be empty')
      .max(64, 'must be at most 64 characters')
      .regex(/^[^\p{Cc}]*$/u, 'must not contain control characters'),
    public_key: z.string().max(16_384),
    /** It opens your account by SSH as well. Only a login may say so, no API token. */
    login: z.boolean().optional(),
  }),
  reply: sshKeySchema,
  refuses: ['limit_reached', 'conflict'],
});

const sshKeyParams = z.object({
  id: z
    .string()
    .regex(/^[1-9][0-9]{0,9}$/, 'must be a whole number')
    .transform(Number),
});

export const setSshKeyLogin = endpoint('setSshKeyLogin', 'PUT /compute/ssh-keys/{id}/login', {
  ...common,
  summary: 'Say whether an SSH key opens your account, and not only containers',
  // Who holds an API token should not get the whole account by a key of their own.
  access: 'session',
  params: sshKeyParams,
  body: z.strictObject({ login: z.boolean() }),
  reply: sshKeySchema,
  actor: byUser,
});

export const deleteSshKey = endpoint('deleteSshKey', 'DELETE /compute/ssh-keys/{id}', {
  ...ofKeys('delete'),
  rateLimit: 'removal',
  summary: 'Delete an SSH public key',
  params: sshKeyParams,
  reply: ok,
});

/** The whole list first, then what changes. */
export const computeEventSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('containers'), data: z.array(containerSchema) }),
  z.object({
    type: z.literal('container_status'),
    data: z.object({
      container_id: z.string(),
      status: statusSchema,
      /** Empty while it does not run. */
      external_ip: z.string(),
    }),
  }),
  /** Version 2 has these in the place of `container_status`. */
  z.object({ type: z.literal('container'), data: containerSchema }),
  z.object({ type: z.literal('container_deleted'), data: z.object({ container_id: z.string() }) }),
  z.object({
    type: z.literal('usage'),
    data: z.array(z.object({ container_id: z.string(), memory_used_mb: z.number(), storage_used_gb: z.number() })),
  }),
]);
export type ComputeEvent = z.input<typeof computeEventSchema>;

export const computeSocket = endpoint('computeSocket', 'GET /compute/ws', {
  ...common,
  summary:
    'The list of your containers, then every change of status; with `v=2` every changed container as a whole, ' +
    'deletions, and what containers use',
  query: z.object({ v: z.enum(['1', '2']).default('1') }),
  scope: { key: (uid) => `compute.${uid}`, action: 'read' },
  reply: computeEventSchema,
  actor: byUser,
  socket: true,
});

export const terminal = endpoint('terminal', 'GET /compute/containers/{id}/terminal', {
  ...ofContainer('update'),
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
    /** Whether a last text frame {"type":"exit","code"} tells how the shell ended. */
    exit: z.enum(['true', 'false']).default('false'),
  }),
  refuses: ['not_running', 'limit_reached'],
  socket: true,
});

/** Control frames a terminal takes. */
export const resizeSchema = z.object({
  type: z.literal('resize'),
  cols: z.int().min(1).max(1000),
  rows: z.int().min(1).max(1000),
});

/** All endpoints of the service. */
export const computeEndpoints = [
  listContainers,
  createContainer,
  getContainer,
  updateContainer,
  getSettings,
  listRevisions,
  deleteContainer,
  startContainer,
  stopContainer,
  listSshKeys,
  createSshKey,
  setSshKeyLogin,
  deleteSshKey,
  listImages,
  listAddressNames,
  listAllContainers,
  adminStopContainer,
  adminDeleteContainer,
  getSsh,
  setSsh,
  listIngress,
  addIngress,
  changeIngress,
  deleteIngress,
  forgetAnswers,
  enterIngress,
  getMounts,
  setMounts,
  setPullPolicy,
  computeSocket,
  terminal,
  execContainer,
  logs,
  readLogs,
  readFiles,
  writeFiles,
  removeFiles,
] as const;
