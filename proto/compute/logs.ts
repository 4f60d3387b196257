/** The log of a container: as a socket that follows it, and as text of what there is. Both have one path. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { wholeNumberOf } from '../whole-number.ts';
import { ofContainer } from './fields.ts';

/** Newest lines that are sent unless asked for others. */
export const DEFAULT_LOG_TAIL = 100;
const MAX_LOG_TAIL = 10_000;
/** A time of RFC 3339, section 5.6, of the years 0000 to 9999, to the nanosecond. */
const STAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/i;
/** Unix seconds, up to the year 9999, to the nanosecond. */
const SECONDS = /^(\d{1,11})(\.\d{1,9})?$/;

const PATH = '/compute/containers/{id}/logs';

const lines = wholeNumberOf({ max: MAX_LOG_TAIL });

const stamp = z
  .string()
  .regex(STAMP, 'must be an RFC 3339 time such as 2026-01-31T12:00:00.123456789Z')
  .refine((text) => !Number.isNaN(Date.parse(text)), 'must be a time that exists');

/** A time, which becomes one of RFC 3339. */
const time = z
  .string()
  .transform((text) => {
    const [, seconds, fraction = ''] = SECONDS.exec(text) ?? [];
    const date = new Date(Number(seconds) * 1000);
    return Number.isNaN(date.getTime()) ? text : `${date.toISOString().slice(0, -'.000Z'.length)}${fraction}Z`;
  })
  .refine(
    (text) => STAMP.test(text) && !Number.isNaN(Date.parse(text)),
    'must be an RFC 3339 time such as 2026-01-31T12:00:00.123456789Z, or Unix seconds',
  );

export const logs = endpoint('logs', `GET ${PATH}`, {
  ...ofContainer('read'),
  summary:
    'Log lines, one a message: the newest `tail` (100 by default), then as they come. `since`, the stamp of the ' +
    'last line received, resumes a log',
  query: z.object({
    /** Without `since` the default is DEFAULT_LOG_TAIL, with it all that is later. */
    tail: lines.optional(),
    since: stamp.optional(),
  }),
  refuses: ['not_running'],
  socket: true,
});

export const readLogs = endpoint('readLogs', `GET ${PATH}`, {
  ...ofContainer('read'),
  summary:
    'The log of a container in any state, as text: the newest `tail` lines, those between `since` and `until`, or of ' +
    'one output',
  query: z.object({
    /** Without `since` the default is DEFAULT_LOG_TAIL, with it all that is later. */
    tail: z.union([z.literal('all'), lines], `must be all, or a whole number up to ${MAX_LOG_TAIL}`).optional(),
    since: time.optional(),
    until: time.optional(),
    stream: z.enum(['all', 'stdout', 'stderr']).default('all'),
    timestamps: z.enum(['true', 'false']).default('true'),
  }),
  refuses: ['conflict', 'limit_reached'],
  bytes: true,
});
