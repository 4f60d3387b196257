/** What operators ask of a running process itself. */
import { z } from 'zod';
import { endpoint } from './endpoint.ts';

/** An actor; its path is its place in the tree. `depth`: messages that wait; `oldest_ms`: age of the oldest. */
export const actorSchema = z.object({
  path: z.string(),
  kind: z.string(),
  status: z.enum(['idle', 'busy', 'held', 'stopping']),
  depth: z.int(),
  oldest_ms: z.number(),
  restarts: z.int(),
  /** Children left out because there are more than are listed. */
  omitted: z.int(),
});
export type ActorView = z.output<typeof actorSchema>;

/** The supervision tree of the process, a parent before its children. */
export const listActors = endpoint({
  name: 'listActors',
  service: 'auth',
  method: 'GET',
  path: '/api/runtime/actors',
  summary: 'The supervision tree of this process',
  access: 'admin',
  reply: z.object({ actors: z.array(actorSchema) }),
  actor: { kind: 'runtime', key: 'none' },
});
