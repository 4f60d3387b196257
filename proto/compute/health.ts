/** How it is known that the program of a container is well. */
import { z } from 'zod';

/** Seconds to the first answer that is well, unless something is said, and at most. */
const HEALTH_GRACE_SECONDS = 60;
export const MAX_GRACE_SECONDS = 600;

const portSchema = z.int().min(1, 'must be 1 to 65535').max(65_535, 'must be 1 to 65535');
const pathSchema = z
  .string()
  .max(1024)
  .regex(/^\/[\x21-\x7e]*$/, 'must begin with "/" and have no spaces');
const hostSchema = z
  .string()
  .max(253)
  .regex(/^[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?$/, 'must be a host name');

/** Words of a command, as `command` of the settings has them. */
const isPlain = (text: string): boolean => !/[\0\p{Cs}]/u.test(text);
const commandSchema = z
  .array(z.string().max(4096).refine(isPlain, 'must not contain NUL, and must be valid Unicode'))
  .min(1, 'must have a word')
  .max(64)
  .refine((words) => words[0] !== '', 'must begin with the name of a program');

/** One way to look, and how long the first good answer may take. */
export const healthSchema = z
  .strictObject({
    /** A GET that is answered with a status from 200 to 399. */
    http: z.strictObject({ port: portSchema, path: pathSchema.default('/'), host: hostSchema.optional() }).optional(),
    /** A port that takes connections. */
    tcp: z.strictObject({ port: portSchema }).optional(),
    /** A command that ends with exit code 0. */
    command: commandSchema.optional(),
    /** Seconds. */
    grace: z
      .int()
      .min(1, `must be 1 to ${MAX_GRACE_SECONDS}`)
      .max(MAX_GRACE_SECONDS, `must be 1 to ${MAX_GRACE_SECONDS}`)
      .default(HEALTH_GRACE_SECONDS),
  })
  .refine(
    ({ http, tcp, command }) => [http, tcp, command].filter((each) => each !== undefined).length === 1,
    'must have one of "http", "tcp" and "command"',
  );
export type HealthCheck = z.output<typeof healthSchema>;

/** `starting`: no good answer yet. `unhealthy`: none within the grace. */
export const healthStateSchema = z.enum(['starting', 'healthy', 'unhealthy']);
export type HealthState = z.output<typeof healthStateSchema>;
