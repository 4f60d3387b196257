/** What can be changed about a container after its creation: its name, image, sizes, SSH, ingress, mounts. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { idSchema } from '../ids.ts';
import {
  byContainer,
  common,
  containerNameSchema,
  containerParams,
  containerSchema,
  containerScope,
  externalPortSchema,
  imageSchema,
  ingressTlsSchema,
  instanceTypeSchema,
  memorySchema,
  mountPathsSchema,
  ok,
  pullPolicySchema,
  sshKeyIdsSchema,
  storageSchema,
} from './fields.ts';
import { networkAliasSchema, networkNameSchema } from './networks.ts';
import { endingFields, workloadFields } from './workload.ts';

const sshSchema = z.object({ ssh_enabled: z.boolean() });

/** An ingress rule, as it is shown. */
export const ingressSchema = z.object({
  id: z.int(),
  port: z.int(),
  target_port: z.int(),
  /** `platform`: the gateway ends TLS there. Absent: TLS goes to the container as it comes. */
  tls: ingressTlsSchema.optional(),
  /** Unix seconds. */
  created_at: z.int(),
});
export type IngressView = z.input<typeof ingressSchema>;

export const updateContainer = endpoint({
  ...common,
  name: 'updateContainer',
  method: 'PATCH',
  path: '/compute/containers/{id}',
  summary:
    'Change a container: its name, its image, its sizes, its SSH keys, its pull policy, its private network, and the ' +
    'settings of its workload. A container that runs is restarted for another image, once that is pulled, and for ' +
    'settings. Variables are merged by name, and null takes one away. Where the engine restarts it for other sizes, ' +
    'and cannot carry over the files outside its mount paths, `discard` must say that they may go',
  scope: containerScope('update'),
  params: containerParams,
  body: z
    .strictObject({
      name: containerNameSchema.optional(),
      /** Null: the platform's own. The files outside the mount paths are those of the new image then. */
      image: imageSchema.nullable().optional(),
      memory_mb: memorySchema.optional(),
      instance_type: instanceTypeSchema.optional(),
      storage_gb: storageSchema.optional(),
      /** All that are let in from then on. */
      ssh_key_ids: sshKeyIdsSchema.optional(),
      pull_policy: pullPolicySchema.optional(),
      /** The private network, null: none; and the name there, null: none. Nothing is restarted for it. */
      network: networkNameSchema.nullable().optional(),
      alias: networkAliasSchema.nullable().optional(),
      discard: z.boolean().optional(),
      ...workloadFields,
      ...endingFields,
    })
    .refine((body) => Object.keys(body).length > 0, { error: 'is missing: it is a string', path: ['name'] }),
  reply: containerSchema,
  refuses: ['discards_files', 'conflict'],
  actor: byContainer,
});

export const getSsh = endpoint({
  ...common,
  name: 'getSsh',
  method: 'GET',
  path: '/compute/containers/{id}/ssh',
  summary: 'Whether SSH access is enabled',
  scope: containerScope('read'),
  params: containerParams,
  reply: sshSchema,
  actor: byContainer,
});

export const setSsh = endpoint({
  ...common,
  name: 'setSsh',
  method: 'PUT',
  path: '/compute/containers/{id}/ssh',
  summary: 'Enable or disable SSH access; disabling ends open sessions',
  scope: containerScope('update'),
  params: containerParams,
  body: sshSchema,
  reply: sshSchema,
  actor: byContainer,
});

export const listIngress = endpoint({
  ...common,
  name: 'listIngress',
  method: 'GET',
  path: '/compute/containers/{id}/ingress',
  summary: 'The ingress rules: which external port leads to which port of the container',
  scope: containerScope('read'),
  params: containerParams,
  reply: z.object({ rules: z.array(ingressSchema) }),
  actor: byContainer,
});

export const addIngress = endpoint({
  ...common,
  name: 'addIngress',
  method: 'POST',
  idempotent: 'key',
  path: '/compute/containers/{id}/ingress',
  summary: 'Add an ingress rule; one on port 443 enables HTTPS, by the platform\'s certificate with `tls`: "platform"',
  scope: containerScope('update'),
  params: containerParams,
  body: z
    .object({
      port: externalPortSchema,
      target_port: z.int().min(1, 'must be 1 to 65535').max(65_535, 'must be 1 to 65535').optional(),
      tls: ingressTlsSchema.default('container'),
    })
    .refine(({ port, tls }) => port !== 80 || tls === 'container', {
      path: ['tls'],
      error: 'cannot be "platform" on port 80, which is for HTTP: open port 443',
    })
    .transform(({ port, target_port, tls }) => ({ port, target_port: target_port ?? port, tls })),
  reply: ingressSchema,
  refuses: ['conflict'],
  actor: byContainer,
});

export const deleteIngress = endpoint({
  ...common,
  name: 'deleteIngress',
  method: 'DELETE',
  path: '/compute/containers/{id}/ingress/{port}',
  summary: 'Remove the ingress rule of an external port',
  scope: containerScope('update'),
  params: z.object({
    id: idSchema,
    port: z
      .string()
      .regex(/^[1-9][0-9]{0,4}$/, 'must be a whole number')
      .transform(Number),
  }),
  reply: ok,
  actor: byContainer,
});

export const getMounts = endpoint({
  ...common,
  name: 'getMounts',
  method: 'GET',
  path: '/compute/containers/{id}/mounts',
  summary: 'The paths whose data is kept',
  scope: containerScope('read'),
  params: containerParams,
  reply: z.object({ mount_paths: z.array(z.string()) }),
  actor: byContainer,
});

export const setMounts = endpoint({
  ...common,
  name: 'setMounts',
  method: 'PUT',
  path: '/compute/containers/{id}/mounts',
  summary:
    'Replace the paths whose data is kept; a running container is restarted. Where the engine cannot carry over ' +
    'the files outside them, `discard` must say that they may go',
  scope: containerScope('update'),
  params: containerParams,
  body: z.object({ mount_paths: mountPathsSchema, discard: z.boolean().default(false) }),
  reply: z.object({ mount_paths: z.array(z.string()), restarted: z.boolean() }),
  refuses: ['discards_files', 'limit_reached', 'too_many_changes'],
  actor: byContainer,
});

export const setPullPolicy = endpoint({
  ...common,
  name: 'setPullPolicy',
  method: 'PUT',
  path: '/compute/containers/{id}/pull-policy',
  summary: 'Whether each start pulls the image anew; counts from the next start',
  scope: containerScope('update'),
  params: containerParams,
  body: z.object({ pull_policy: pullPolicySchema }),
  reply: z.object({ pull_policy: pullPolicySchema }),
  actor: byContainer,
});
