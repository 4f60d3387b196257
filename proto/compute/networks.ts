/** Private networks of a user's containers, as the fields of a container say them. */
import { z } from 'zod';

/** A DNS label that no resolver takes for an address: it begins with a letter. */
const LABEL = /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/;
const EXPECTED = 'must be 1 to 63 characters a-z, 0-9 and "-", the first a letter, the last no "-"';

export const networkNameSchema = z.string().regex(LABEL, EXPECTED);
export const networkAliasSchema = z
  .string()
  .regex(LABEL, EXPECTED)
  .refine((alias) => alias !== 'localhost', 'must not be "localhost", which each container is to itself');
