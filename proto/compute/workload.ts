/** How the workload of a container is run: its variables, its secrets, and what takes the place of the image's own. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { ofContainer } from './fields.ts';
import { healthSchema } from './health.ts';

/** Most variables of a container, secrets among them, and most bytes of one value and of all names and values. */
export const MAX_VARIABLES = 200;
const MAX_VALUE_BYTES = 32 * 1024;
export const MAX_VARIABLES_BYTES = 128 * 1024;
/** Most words of a command, and most bytes of all. */
const MAX_WORDS = 256;
const MAX_COMMAND_BYTES = 32 * 1024;

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
/** What can be neither in an environment nor in UTF-8. */
const isPlain = (text: string): boolean => !/[\0\p{Cs}]/u.test(text);

const variableNameSchema = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be 1 to 128 letters, digits and "_", not beginning with a digit')
  .refine((name) => !/^TROUPE_/i.test(name), 'is a name of the platform: TROUPE_ begins only those');

const variableValueSchema = z
  .string()
  .refine((value) => bytesOf(value) <= MAX_VALUE_BYTES, `must have at most ${MAX_VALUE_BYTES} bytes`)
  .refine(isPlain, 'must not contain NUL, and must be valid Unicode');

/** Variables by name; null takes one away. */
const variablesSchema = z.record(variableNameSchema, variableValueSchema.nullable());

const wordsSchema = z
  .array(z.string().refine(isPlain, 'must not contain NUL, and must be valid Unicode'))
  .min(1, 'must have a word: null leaves it to the image')
  .max(MAX_WORDS)
  .refine((words) => words[0] !== '', 'must begin with the name of a program')
  .refine((words) => bytesOf(words.join(' ')) <= MAX_COMMAND_BYTES, `must have at most ${MAX_COMMAND_BYTES} bytes`);

const workingDirSchema = z
  .string()
  .max(1024)
  .regex(/^\/[^\p{Cc}\p{Cs}]*$/u, 'must be an absolute path without control characters');

/** What can be said of the workload when a container is created or changed. What is absent stays as it is. */
export const workloadFields = {
  env: variablesSchema.optional(),
  /** As `env`, but never shown again. */
  secrets: variablesSchema.optional(),
  /** Takes the place of the image's CMD; null: as the image says. */
  command: wordsSchema.nullable().optional(),
  /** Takes the place of the image's ENTRYPOINT, and drops its CMD; null: as the image says. */
  entrypoint: wordsSchema.nullable().optional(),
  /** Where the workload begins; null: where the image says. */
  working_dir: workingDirSchema.nullable().optional(),
  /** Runs once in a new image before that takes the place of the one that runs; null: nothing does. */
  release: wordsSchema.nullable().optional(),
  /** How it is known that it is well; null: nothing is looked at. */
  health: healthSchema.nullable().optional(),
} as const;

/** Seconds between SIGTERM and SIGKILL of a container that says nothing of it. */
export const STOP_GRACE_SECONDS = 10;

/** When a workload that ended by itself is started again. */
export const restartPolicySchema = z.enum(['always', 'on-failure', 'no']);
export type RestartPolicy = z.output<typeof restartPolicySchema>;

/** How a container stops, and what follows when it ends. A change counts from the next time: it restarts nothing. */
export const endingFields = {
  /** Seconds between SIGTERM and SIGKILL. */
  stop_grace: z.int().min(1).max(300).optional(),
  /** `on-failure`: not after exit code 0. One that is not started again is `stopped`. */
  restart: restartPolicySchema.optional(),
} as const;

const workloadChangeSchema = z.object(workloadFields);
/** A change of them. */
export type WorkloadChange = z.output<typeof workloadChangeSchema>;

/** The settings, as their owner sees them. */
const settingsSchema = z.object({
  env: z.record(z.string(), z.string()),
  /** Names only, sorted. */
  secrets: z.array(z.string()),
  command: z.array(z.string()).nullable(),
  entrypoint: z.array(z.string()).nullable(),
  working_dir: z.string().nullable(),
  stop_grace: z.int(),
  restart: restartPolicySchema,
  /** Older nodes leave it out. */
  health: healthSchema.nullable().optional(),
  /** Absent: there is none. */
  release: z.array(z.string()).optional(),
});

export const getSettings = endpoint('getSettings', 'GET /compute/containers/{id}/settings', {
  ...ofContainer('read'),
  summary: 'How the workload is run: its environment, the names of its secrets, its command',
  reply: settingsSchema,
});
