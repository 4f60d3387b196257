/**
 * What stands in Troupe's tokens. All kinds are signed with the one shared secret, so a valid signature alone opens
 * nothing: the kind is a claim and every reader checks it (interface section 5.1).
 */
import { z } from 'zod';
import { idSchema } from './ids.ts';

/** Longest token anybody verifies; ours are below 1 KiB (hazards A08). */
export const MAX_TOKEN_LENGTH = 4096;

/** Claims of a session token. `IsAdmin` is spelt as interface section 5.4 does. */
export const sessionClaimsSchema = z.object({
  type: z.literal('session'),
  user_id: idSchema,
  username: z.string().min(1).max(256),
  IsAdmin: z.boolean(),
  jti: z.string().min(1).max(64),
  iat: z.number(),
  exp: z.number(),
});
export type SessionClaims = z.output<typeof sessionClaimsSchema>;
