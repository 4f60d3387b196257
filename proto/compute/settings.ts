/** What can be changed about a container after its creation: its name, image, sizes, SSH, ingress, mounts. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { cacheModeSchema } from '../gateway/cache-mode.ts';
import { isEntryPath } from '../gateway/port-guard.ts';
import { idSchema } from '../ids.ts';
import { addressNameSchema } from './address-names.ts';
import { egressSchema } from './egress.ts';
import {
  containerNameSchema,
  containerSchema,
  expiresAtSchema,
  externalPortSchema,
  imageSchema,
  ingressAccessSchema,
  ingressPasswordSchema,
  ingressTlsSchema,
  instanceTypeSchema,
  memorySchema,
  mountPathsSchema,
  ofContainer,
  ok,
  pullPolicySchema,
  sshKeyIdsSchema,
  storageSchema,
} from './fields.ts';
import { networkAliasSchema, networkNameSchema } from './networks.ts';
import { endingFields, workloadFields } from './workload.ts';

/** What a revision brings by itself. */
const OF_REVISION = ['image', ...Object.keys(workloadFields)];

const sshSchema = z.object({ ssh_enabled: z.boolean() });

/** An ingress rule, as it is shown. */
export const ingressSchema = z.object({
  id: z.int(),
  port: z.int(),
  target_port: z.int(),
  /** `platform`: the gateway ends TLS there. Absent: TLS goes to the container as it comes. */
  tls: ingressTlsSchema.optional(),
  /** Whom the gateway lets through there. Absent: everybody. */
  access: ingressAccessSchema.optional(),
  /** What gateways keep of the answers that come by it. Absent: `default`. */
  cache: cacheModeSchema.optional(),
  /** Unix seconds. */
  created_at: z.int(),
});
export type IngressView = z.input<typeof ingressSchema>;

export const updateContainer = endpoint('updateContainer', 'PATCH /compute/containers/{id}', {
  ...ofContainer('update'),
  summary:
    'Change a container: its name, its image, its sizes, its SSH keys, its pull policy, its private network, its ' +
    'address name, what it may reach, when it expires, and the settings of its workload. A container that runs is ' +
    'restarted for another image, once that is pulled, and for settings. Variables are merged by name, and null ' +
    'takes one away. `revision` goes back to what it ran before; secrets stay unless `revision_secrets`. ' +
    'Where the engine restarts it for other sizes, and cannot carry over the files outside its mount paths, ' +
    '`discard` must say that they may go',
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
      /** It is reached at this name, too; null: by its id alone. Nothing is restarted for it. */
      address_name: addressNameSchema.nullable().optional(),
      /** It is stopped then, and deleted a day later; null: never. Nothing is restarted for it. */
      expires_at: expiresAtSchema.nullable().optional(),
      /** Another image begins beside it although it has mount paths. Nothing is restarted for it. */
      overlap: z.boolean().optional(),
      /** What it may reach. Nothing is restarted for it, and it counts for connections that are open, too. */
      egress: egressSchema.optional(),
      discard: z.boolean().optional(),
      /** Its image, by digest, and its settings are those of this revision again. Secrets stay unless the next. */
      revision: z.int().min(1).optional(),
      /** Of a revision: its secrets, too, get the values of then. Those that came later stay. */
      revision_secrets: z.boolean().optional(),
      ...workloadFields,
      ...endingFields,
    })
    .refine((body) => body.revision === undefined || !Object.keys(body).some((field) => OF_REVISION.includes(field)), {
      error: 'must come without an image and settings, which it brings: send others by a call of their own',
      path: ['revision'],
    })
    .refine((body) => body.revision_secrets === undefined || body.revision !== undefined, {
      error: 'must come with a "revision", whose secrets it brings',
      path: ['revision_secrets'],
    }),
  reply: containerSchema.extend({
    /** Of a change with `revision`: what it went back to, and whether secrets have the values of today or of then. */
    rollback: z
      .object({
        revision: z.int(),
        secrets: z.enum(['today', 'revision']),
        /** Secrets of then whose values are not kept: their user took them away since. Absent: there are none. */
        secrets_gone: z.array(z.string()).optional(),
      })
      .optional(),
  }),
  refuses: ['discards_files', 'conflict', 'limit_reached'],
});

export const getSsh = endpoint('getSsh', 'GET /compute/containers/{id}/ssh', {
  ...ofContainer('read'),
  summary: 'Whether SSH access is enabled',
  reply: sshSchema,
});

export const setSsh = endpoint('setSsh', 'PUT /compute/containers/{id}/ssh', {
  ...ofContainer('update'),
  summary: 'Enable or disable SSH access; disabling ends open sessions',
  body: sshSchema,
  reply: sshSchema,
});

export const listIngress = endpoint('listIngress', 'GET /compute/containers/{id}/ingress', {
  ...ofContainer('read'),
  summary: 'The ingress rules: which external port leads to which port of the container',
  reply: z.object({ rules: z.array(ingressSchema) }),
});

const ingressParams = z.object({
  id: idSchema,
  port: z
    .string()
    .regex(/^[1-9][0-9]{0,4}$/, 'must be a whole number')
    .transform(Number),
});

export const addIngress = endpoint('addIngress', 'POST /compute/containers/{id}/ingress', {
  ...ofContainer('update'),
  idempotent: 'key',
  summary:
    'Add an ingress rule; one on port 443 enables HTTPS, by the platform\'s certificate with `tls`: "platform". ' +
    'There `access` says whom the gateway lets through: everybody, whoever has the `password`, or only you ("mine"). ' +
    '`cache` says what gateways keep of the answers: what section 4.5 allows ("default"), only what an answer itself ' +
    'declares fresh ("explicit"), or nothing ("off")',
  body: z
    .object({
      port: externalPortSchema,
      target_port: z.int().min(1, 'must be 1 to 65535').max(65_535, 'must be 1 to 65535').optional(),
      tls: ingressTlsSchema.default('container'),
      access: ingressAccessSchema.default('public'),
      /** Of access "password". It is not shown again. */
      password: ingressPasswordSchema.optional(),
      cache: cacheModeSchema.default('default'),
    })
    .refine(({ port, tls }) => port !== 80 || tls === 'container', {
      path: ['tls'],
      error: 'cannot be "platform" on port 80, which is for HTTP: open port 443',
    })
    .refine(({ tls, access }) => access === 'public' || tls === 'platform', {
      path: ['access'],
      error: 'needs "tls": "platform": the gateway can only ask visitors where it ends TLS',
    })
    .refine(({ access, password }) => access !== 'password' || password !== undefined, {
      path: ['password'],
      error: 'is missing: access "password" needs one of 8 to 128 characters',
    })
    .refine(({ access, password }) => access === 'password' || password === undefined, {
      path: ['password'],
      error: 'is only for "access": "password": leave it out, or add that',
    })
    .transform(({ target_port, ...rule }) => ({ ...rule, target_port: target_port ?? rule.port })),
  reply: ingressSchema,
  refuses: ['conflict'],
});

export const changeIngress = endpoint('changeIngress', 'PATCH /compute/containers/{id}/ingress/{port}', {
  ...ofContainer('update'),
  summary: 'Change what gateways keep of the answers that come by an ingress rule; what they kept is forgotten',
  params: ingressParams,
  body: z.strictObject({ cache: cacheModeSchema }),
  reply: ingressSchema,
});

export const enterIngress = endpoint('enterIngress', 'POST /compute/containers/{id}/ingress/{port}/entry', {
  // Whoever may open the port to everybody gains nothing by it. `read` is for those who only look.
  ...ofContainer('update'),
  summary:
    'A way in through an ingress rule with `access`: "mine". A browser that opens the URL within a minute is let in ' +
    'for 12 hours',
  params: ingressParams,
  body: z.object({
    /** The hostname of the container, which it is without one, or one of yours that leads to the port. */
    host: z.string().max(253).toLowerCase().optional(),
    /** Where it leads there. */
    path: z.string().default('/').refine(isEntryPath, 'must be a path such as /a?b, of 2,000 characters at most'),
  }),
  reply: z.object({
    /** Without the port on which the gateway listens, where that is not the usual one. */
    url: z.url(),
    expires_at: z.iso.datetime(),
  }),
  // Its cookie outlives the key.
  notByKey: true,
  // It leaves nothing.
  rateLimit: 'exempt',
  safe: true,
  refuses: ['conflict'],
});

export const deleteIngress = endpoint('deleteIngress', 'DELETE /compute/containers/{id}/ingress/{port}', {
  ...ofContainer('update'),
  rateLimit: 'removal',
  summary: 'Remove the ingress rule of an external port',
  params: ingressParams,
  reply: ok,
});

export const forgetAnswers = endpoint('forgetAnswers', 'DELETE /compute/containers/{id}/kept-answers', {
  ...ofContainer('update'),
  rateLimit: 'counted',
  summary: 'Forget the answers of its programs that gateways keep, as after a new release of an app',
  reply: ok,
});

export const getMounts = endpoint('getMounts', 'GET /compute/containers/{id}/mounts', {
  ...ofContainer('read'),
  summary: 'The paths whose data is kept',
  reply: z.object({ mount_paths: z.array(z.string()) }),
});

export const setMounts = endpoint('setMounts', 'PUT /compute/containers/{id}/mounts', {
  ...ofContainer('update'),
  summary:
    'Replace the paths whose data is kept; a running container is restarted. Where the engine cannot carry over ' +
    'the files outside them, `discard` must say that they may go',
  body: z.object({ mount_paths: mountPathsSchema, discard: z.boolean().default(false) }),
  reply: z.object({ mount_paths: z.array(z.string()), restarted: z.boolean() }),
  refuses: ['discards_files', 'limit_reached', 'too_many_changes'],
});

export const setPullPolicy = endpoint('setPullPolicy', 'PUT /compute/containers/{id}/pull-policy', {
  ...ofContainer('update'),
  summary: 'Whether each start pulls the image anew; counts from the next start',
  body: z.object({ pull_policy: pullPolicySchema }),
  reply: z.object({ pull_policy: pullPolicySchema }),
});
