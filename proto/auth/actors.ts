/** What operators see of the actors of the platform, and what they may do to one. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';

const handlerSchema = z.object({ message: z.string(), ms: z.number() });

/** An actor; its path is its place in the tree. `depth`: messages that wait; `oldest_ms`: age of the oldest. */
export const actorSchema = z.object({
  path: z.string(),
  kind: z.string(),
  status: z.enum(['idle', 'busy', 'held', 'stopping']),
  depth: z.int(),
  oldest_ms: z.number(),
  restarts: z.int(),
  /** Present while a handler is pending: what it works on, and for how long. */
  handler: handlerSchema.optional(),
  /** Children left out because there are more than are listed. */
  omitted: z.int(),
  /** The address of its process; absent where only the process that answers was asked. */
  node: z.string().optional(),
});
export type ActorView = z.output<typeof actorSchema>;

/** One actor in detail. */
export const actorDetailsSchema = actorSchema.omit({ handler: true, omitted: true, node: true }).extend({
  node: z.string(),
  children: z.int(),
  /** The handlers that are pending, the oldest first, at most 20. */
  handlers: z.array(handlerSchema),
  /** What waits, by type of message. */
  waiting: z.array(z.object({ message: z.string(), count: z.int() })),
  /** `at`: Unix ms. */
  last_crash: z
    .object({
      at: z.number(),
      message: z.string(),
      error: z.string(),
      code: z.string().optional(),
      text: z.string(),
    })
    .optional(),
  /** Whether it wakes from storage, and may be released. */
  is_entity: z.boolean(),
  /** Whether others depend on it, so that it is stopped and reset with `force` only. */
  is_guarded: z.boolean(),
});
export type ActorDetailsView = z.output<typeof actorDetailsSchema>;

/** A process that was asked. */
const actorProcessSchema = z.object({
  /** Host name and process id, as `troupe nodes` shows them. */
  address: z.string(),
  /** What it runs: `troupe` is `troupe up`. Unknown of one that never answered. */
  name: z.string().optional(),
  /** Its id in the cluster; a gateway has none. */
  id: z.string().optional(),
  /** `silent`: it did not answer in time. */
  status: z.enum(['answered', 'silent']),
});
export type ActorProcess = z.output<typeof actorProcessSchema>;

const node = z.string().min(1).max(300).optional();
const path = z.string().min(1).max(4000);

/** The supervision tree of the process, a parent before its children; or of other processes, or of all. */
export const listActors = endpoint('listActors', 'GET /api/runtime/actors', {
  service: 'auth',
  summary: 'The supervision tree of this process, of another (`node`), or of all (`all`)',
  access: 'admin',
  query: z.object({ all: z.enum(['', 'true', 'false']).optional(), node }),
  reply: z.object({ actors: z.array(actorSchema), processes: z.array(actorProcessSchema).optional() }),
  refuses: ['not_found', 'conflict'],
  actor: { kind: 'runtime', key: 'none' },
});

/** One actor, looked for in all processes unless `node` names one. */
export const showActor = endpoint('showActor', 'GET /api/runtime/actor', {
  service: 'auth',
  summary: 'One actor: what it does, what waits for it, its last crash',
  access: 'admin',
  query: z.object({ path, node }),
  reply: z.object({ actors: z.array(actorDetailsSchema), processes: z.array(actorProcessSchema) }),
  refuses: ['not_found', 'conflict'],
  actor: { kind: 'runtime', key: 'none' },
});

export const actorVerbSchema = z.enum(['stop', 'reset', 'release']);
export type ActorVerb = z.output<typeof actorVerbSchema>;

/** Stops, resets or releases one actor. */
export const actOnActor = endpoint('actOnActor', 'POST /api/runtime/actor', {
  service: 'auth',
  summary: 'Stop, reset or release one actor',
  access: 'admin',
  body: z.strictObject({ verb: actorVerbSchema, path, node, force: z.boolean().default(false) }),
  reply: z.object({ path: z.string(), node: z.string(), is_done: z.boolean() }),
  refuses: ['not_found', 'conflict', 'unavailable'],
  actor: { kind: 'runtime', key: 'none' },
});

/** What the process of a service answers besides the service itself. */
export const runtimeEndpoints = [listActors, showActor, actOnActor] as const;
