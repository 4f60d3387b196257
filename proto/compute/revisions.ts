/** What a container ran: an image with settings, from each start that brought something else. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { ofContainer } from './fields.ts';

/** A revision, as it is shown. */
const revisionSchema = z.object({
  number: z.int(),
  image: z.string(),
  /** Of the image's manifest in its registry. Absent: it is not known. */
  digest: z.string().optional(),
  /** When it began to run. */
  started_at: z.iso.datetime(),
  /** Whether it is what the container is now. */
  current: z.boolean(),
  /** The names of its variables and of its secrets. */
  env: z.array(z.string()),
  secrets: z.array(z.string()),
  command: z.array(z.string()).nullable(),
  /** Why it was given up for the one before. */
  given_up: z.string().optional(),
});

export const listRevisions = endpoint('listRevisions', 'GET /compute/containers/{id}/revisions', {
  ...ofContainer('read'),
  summary:
    'What the container ran, newest first: its image by digest, its settings, and the names of its secrets. ' +
    '`PATCH` with `revision` goes back to one',
  reply: z.object({ revisions: z.array(revisionSchema) }),
});
