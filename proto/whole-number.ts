/** Whole numbers in paths and queries. */
import { z } from 'zod';

/** Every whole number up to it is exact. */
const MOST = 999_999_999_999_999;

/** Decimal digits, as a number from `min` to `max`. What is no whole number is told first, and its bounds then. */
export const wholeNumberOf = ({ min = 0, max = MOST }: { readonly min?: number; readonly max?: number } = {}) =>
  z
    .string()
    .regex(/^-?[0-9]+$/, { error: 'must be a whole number', abort: true })
    .transform(Number)
    .refine((given) => given >= min, `must be at least ${min}`)
    .refine((given) => given <= max, `must be at most ${max}`);

/** One that is not negative. */
export const wholeNumber = wholeNumberOf();
