/** Pauses between attempts. */

/** Bounds of a pause that doubles with each failure, ms. */
export interface RetryBounds {
  readonly minMs: number;
  readonly maxMs: number;
}

/** Half of the pause is random, so that many clients that lost one server do not come back together. */
export function retryPause(failures: number, { minMs, maxMs }: RetryBounds, random: number = Math.random()): number {
  return Math.min(maxMs, minMs * 2 ** Math.min(failures, 30)) * (0.5 + random / 2);
}
