/** Time that a test decides. */
import type { Clock } from '../../proto/ports/clock.ts';

/** A clock that the test moves on. */
export interface MovableClock extends Clock {
  advance(ms: number): void;
}

export function movableClock(): MovableClock {
  let ahead = 0;
  return {
    now: () => Date.now() + ahead,
    advance: (ms) => {
      ahead += ms;
    },
  };
}
