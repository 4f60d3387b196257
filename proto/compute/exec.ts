/** Commands in a container: the endpoint, and what goes over its socket as text. Bytes: docs/reference/streams.md. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { wholeNumber, wholeNumberOf } from '../whole-number.ts';
import { ofContainer } from './fields.ts';

/** Most words of a command, and bytes of all of them together: a request's head has to hold them. */
const MAX_WORDS = 256;
const MAX_COMMAND_CHARS = 8192;
const MAX_CELLS = 1000;

const NO_NUL = /^[^\0]*$/;
/** An id that a client chose for its command, at random; with `new` the platform chooses it. */
const COMMAND_SESSION = /^(?:new|[A-Za-z0-9_-]{16,64})$/;

const cellsSchema = wholeNumberOf({ min: 1, max: MAX_CELLS });

export const execContainer = endpoint('execContainer', 'GET /compute/containers/{id}/exec', {
  ...ofContainer('update'),
  summary:
    'Run a command in the container: binary frames are its input, and its output with the number of the stream (1 or ' +
    '2) as their first byte; the last text frame {"type":"exit","code"} has its exit code. With `session` it goes on ' +
    'after a lost connection, and is joined again with `since`',
  query: z
    .object({
      /** One is a script for `/bin/sh -c`; several are a program and its arguments. */
      command: z
        .array(z.string().regex(NO_NUL, 'must not contain NUL'))
        .max(MAX_WORDS, `must be at most ${MAX_WORDS} words`)
        .refine(([first]) => first !== '', 'must not begin with an empty word')
        .refine(
          (words) => words.reduce((sum, word) => sum + word.length, 0) <= MAX_COMMAND_CHARS,
          `must be at most ${MAX_COMMAND_CHARS} characters together`,
        )
        .default([]),
      /** Whether it runs on a terminal, of that size. */
      tty: z.enum(['true', 'false']).default('false'),
      cols: cellsSchema.default(80),
      rows: cellsSchema.default(24),
      /** Names the command: it outlives its connection, and is run once. */
      session: z.string().regex(COMMAND_SESSION, 'must be `new`, or 16 to 64 letters, digits, "_" or "-"').optional(),
      /** Joins the command again, from so many bytes of its output on. Nothing is run: `command` must not come too. */
      since: wholeNumber.optional(),
    })
    .refine(({ command, since }) => command.length > 0 || since !== undefined, {
      path: ['command'],
      message: 'must not be missing',
    })
    .refine(({ session, since }) => since === undefined || (session !== undefined && session !== 'new'), {
      path: ['since'],
      message: 'needs the `session` to join',
    }),
  lists: ['command'],
  refuses: ['not_running'],
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
  // Those of a command with a session:
  z.object({ type: z.literal('ack'), cursor: z.int().min(0) }),
  z.object({ type: z.literal('start') }),
]);

/** The first text of the socket of a command with a session. */
export type ExecSession =
  | {
      readonly type: 'session';
      readonly session: string;
      readonly resumable: true;
      /** Bytes of output, of both streams together, before what comes now. */
      readonly cursor: number;
      /** Bytes between `since` and `cursor`: they are not kept any more. */
      readonly gap: number;
      /** Bytes of input that need not be sent again, and those of them that the command took. */
      readonly input: { readonly received: number; readonly written: number };
    }
  | {
      readonly type: 'session';
      readonly session: string;
      /** Nothing was begun: `start` runs the command as one without a session. */
      readonly resumable: false;
      readonly reason: string;
    };

/** Tells how far the input of a command with a session is. */
export interface ExecInput {
  readonly type: 'input';
  readonly received: number;
  readonly written: number;
}

/** The last text of the socket. */
export interface ExecExit {
  readonly type: 'exit';
  /** As a shell has it: 128 and the number of the signal for one that a signal ended. */
  readonly code: number;
}
