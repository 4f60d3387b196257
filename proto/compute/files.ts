/** Files of a container: endpoints, and what a path may be. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { ofContainer, ok } from './fields.ts';

/** Longest path, in characters. */
const MAX_PATH = 1024;
/** Transfers that one user may have under way at a process. */
export const MAX_TRANSFERS = 8;
/** Largest file, or archive, unless the settings say otherwise. */
export const DEFAULT_FILES_MAX_MB = 1024;

/** One absolute path in normal form: no `.` or `..`, no empty part, no slash at its end. */
const filePathSchema = z
  .string()
  .max(MAX_PATH, `must be at most ${MAX_PATH} characters`)
  .regex(/^\//, 'must be an absolute path')
  .regex(/^[^\0]*$/, 'must not contain NUL')
  .refine(
    (path) =>
      path === '/' ||
      path
        .slice(1)
        .split('/')
        .every((part) => !['', '.', '..'].includes(part)),
    'must be in normal form: no "." or ".." parts, no "//" and no slash at its end',
  );

const PATH = '/compute/containers/{id}/files';
const archive = z.enum(['tar']).optional();
const conflicts = ['is_folder', 'no_folder', 'read_only', 'no_space', 'not_running', 'conflict'] as const;

export const readFiles = endpoint('readFiles', `GET ${PATH}`, {
  // Files hold what `read` does not show: secrets that the program wrote down, keys of its SSH server.
  ...ofContainer('update'),
  summary: 'A file of the container, or with `archive=tar` a file or folder as a tar archive; takes `Range` of a file',
  query: z.object({ path: filePathSchema, archive }),
  refuses: [...conflicts, 'forbidden', 'limit_reached', 'body_too_large', 'bad_range'],
  bytes: true,
});

export const writeFiles = endpoint('writeFiles', `PUT ${PATH}`, {
  ...ofContainer('update'),
  summary: 'Write a file of the container, or with `archive=tar` extract a tar archive into a folder',
  query: z.object({
    path: filePathSchema,
    archive,
    mode: z
      .string()
      .regex(/^0?[0-7]{3}$/, 'must be permissions such as 644')
      .transform((text) => Number.parseInt(text, 8))
      .optional(),
  }),
  reply: ok,
  refuses: [...conflicts, 'limit_reached', 'body_too_large'],
  bytes: true,
  rateLimit: 'exempt',
});

export const removeFiles = endpoint('removeFiles', `DELETE ${PATH}`, {
  ...ofContainer('update'),
  rateLimit: 'removal',
  summary: 'Remove a file of the container, or a folder with all in it',
  query: z.object({ path: filePathSchema }),
  reply: ok,
  refuses: [...conflicts, 'limit_reached'],
  bytes: true,
});
