/** Commands in a container: the endpoint, and what goes over its socket as text. Bytes: docs/reference/streams.md. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { byContainer, common, containerParams, containerScope } from './fields.ts';

/** Most words of a command, and bytes of all of them together: a request's head has to hold them. */
const MAX_WORDS = 256;
const MAX_COMMAND_CHARS = 8192;
const MAX_CELLS = 1000;

const NO_NUL = /^[^\0]*$/;

const cellsSchema = z
  .string()
  .regex(/^[0-9]{1,4}$/, 'must be a whole number')
  .transform(Number)
  .pipe(z.int().min(1, 'must be at least 1').max(MAX_CELLS, `must be at most ${MAX_CELLS}`));

export const execContainer = endpoint({
  ...common,
  name: 'execContainer',
  method: 'GET',
  path: '/compute/containers/{id}/exec',
  summary:
    'Run a command in the container: binary frames are its input, and its output with the number of the stream (1 or ' +
    '2) as their first byte; the last text frame {"type":"exit","code"} has its exit code',
  scope: containerScope('update'),
  params: containerParams,
  query: z.object({
    /** One is a script for `/bin/sh -c`; several are a program and its arguments. */
    command: z
      .array(z.string().regex(NO_NUL, 'must not contain NUL'))
      .min(1, 'must not be missing')
      .max(MAX_WORDS, `must be at most ${MAX_WORDS} words`)
      .refine(([first]) => first !== '', 'must not begin with an empty word')
      .refine(
        (words) => words.reduce((sum, word) => sum + word.length, 0) <= MAX_COMMAND_CHARS,
        `must be at most ${MAX_COMMAND_CHARS} characters together`,
      ),
    /** Whether it runs on a terminal, of that size. */
    tty: z.enum(['true', 'false']).default('false'),
    cols: cellsSchema.default(80),
    rows: cellsSchema.default(24),
  }),
  lists: ['command'],
  refuses: ['not_running'],
  actor: byContainer,
  socket: true,
});

/** What a client says as text. */
export const execControlSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('eof') }),
  z.object({
    type: z.literal('resize'),
    cols: z.int().min(1).max(MAX_CELLS),
    rows: z.int().min(1).max(MAX_CELLS),
  }),
]);

/** The last text of the socket. */
export interface ExecExit {
  readonly type: 'exit';
  /** As a shell has it: 128 and the number of the signal for one that a signal ended. */
  readonly code: number;
}
