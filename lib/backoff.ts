/** Bounds of a pause that doubles with each failure. */
interface BackoffBounds {
  readonly minMs: number;
  readonly maxMs: number;
}

/** Which shares of a pause are drawn from, so that many who failed together do not come back together. */
export type Jitter = readonly [least: number, most: number];

/** The whole pause, always. */
export const NO_JITTER: Jitter = [1, 1];
/** The second half of the pause is random. */
export const HALF_JITTER: Jitter = [0.5, 1];
/** Half of the pause up to one and a half. */
export const WIDE_JITTER: Jitter = [0.5, 1.5];
/** All of the pause is random. */
export const FULL_JITTER: Jitter = [0, 1];

/** Past this no bound is left to reach, and a power of two stays a number. */
const MOST_DOUBLINGS = 30;

/** The pause before another try, ms: `minMs` doubled so many times, at most `maxMs`, and of that a random share. */
export function backoffMs(
  doublings: number,
  { minMs, maxMs }: BackoffBounds,
  [least, most]: Jitter = NO_JITTER,
  random: () => number = Math.random,
): number {
  const pause = Math.min(maxMs, minMs * 2 ** Math.min(doublings, MOST_DOUBLINGS));
  return least === most ? pause * least : pause * (least + (most - least) * random());
}
