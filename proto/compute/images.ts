/**
 * What the compute service tells about the platform: the images there are, and all containers for the administrator.
 */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { common, containerCreatedSchema, containerParams, containerSchema, ofContainers, ok } from './fields.ts';

/** An image that containers can start from. */
export const imageSchema = z.object({
  name: z.string(),
  image: z.string(),
  source: z.enum(['builtin', 'registry']),
  /** A short name, by which it can be chosen as well. */
  alias: z.string().optional(),
  /** Whether it is built already. Otherwise the first container that names it waits for that. */
  built: z.boolean().optional(),
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

export const listImages = endpoint('listImages', 'GET /compute/images', {
  ...ofContainers('read'),
  summary:
    "Images a container can be made from: the platform's own, the default first, and what the registry has for you",
  reply: z.array(imageSchema),
});

const admin = { ...common, access: 'admin', actor: { kind: 'compute/listing', key: 'none' } } as const;

export const listAllContainers = endpoint('listAllContainers', 'GET /compute/admin/containers', {
  ...admin,
  summary: 'The containers of all users',
  reply: z.array(adminContainerSchema),
});

export const adminStopContainer = endpoint('adminStopContainer', 'POST /compute/admin/containers/{id}/stop', {
  ...admin,
  idempotent: 'key',
  rateLimit: 'removal',
  summary: "Stop any user's container, as its owner could",
  params: containerParams,
  reply: containerCreatedSchema,
  refuses: ['not_found', 'conflict'],
});

export const adminDeleteContainer = endpoint('adminDeleteContainer', 'DELETE /compute/admin/containers/{id}', {
  ...admin,
  rateLimit: 'removal',
  summary: "Delete any user's container with its data",
  params: containerParams,
  reply: ok,
  refuses: ['not_found'],
});
