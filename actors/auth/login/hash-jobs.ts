/** What the event loop and the threads that hash say to each other. */
import { z } from 'zod';

/** One password to hash, or to compare with a `stored` PHC string. `id`: the answer carries it, too. */
export const hashJob = z.object({
  id: z.number(),
  password: z.string(),
  stored: z.string().optional(),
  parameters: z.object({ memoryCost: z.number(), timeCost: z.number(), parallelism: z.number() }).readonly(),
});
export type HashJob = z.output<typeof hashJob>;

/** The PHC string, or whether the password is the stored one. */
export const hashAnswer = z.object({ id: z.number(), result: z.union([z.string(), z.boolean()]) });
export type HashAnswer = z.output<typeof hashAnswer>;
