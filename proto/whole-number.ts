/** Whole numbers in paths and queries. */
import { z } from 'zod';

/** Decimal digits, not negative, at most 15 of them, so that every one is exact. */
export const wholeNumber = z
  .string()
  .regex(/^[0-9]{1,15}$/, 'must be a whole number, not negative')
  .transform(Number);
