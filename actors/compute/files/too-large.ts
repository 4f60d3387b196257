import { Refusal } from '../../../proto/errors.ts';

const MB = 1024 * 1024;

/** More than `limit` bytes. */
export function tooLarge(limit: number): Refusal {
  return new Refusal('body_too_large', { message: `More than ${limit / MB} MiB cannot be transferred at once.` });
}
