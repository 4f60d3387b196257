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

/** The last change that ended on what ran before. */
const failedChangeSchema = z.object({
  at: z.iso.datetime(),
  /** The image that it was to have. */
  image: z.string(),
  /** Whole sentences. */
  reason: z.string(),
  /** What the check of its health found, look by look: the last few. */
  answers: z.array(z.string()).readonly(),
  /** The last 20 lines of the log of the one that failed, without the values of secrets. */
  log: z.array(z.string()).readonly(),
});

export const listRevisions = endpoint('listRevisions', 'GET /compute/containers/{id}/revisions', {
  ...ofContainer('read'),
  summary:
    'What the container ran, newest first: its image by digest, its settings, and the names of its secrets. ' +
    '`PATCH` with `revision` goes back to one. `failed_change` is the last change that ended on what ran before',
  reply: z.object({
    revisions: z.array(revisionSchema),
    /** Absent: no change has ended so yet. */
    failed_change: failedChangeSchema.optional(),
  }),
});
