/** How what tests have begun is ended. */
import { after } from 'node:test';
import type { Cleanup } from './temp.ts';

/** Takes what is to be ended, whatever it gives. */
interface Ends {
  after(end: () => unknown): void;
}

/** Ends what is handed to it when `t` ends, the last first: what was begun later needs what was there before. */
export function inReverse(t: Cleanup): Ends {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  return { after: (end) => void ends.unshift(end) };
}

/** The same for all tests of the `describe` in which it is called. */
export function suiteCleanup(): Ends {
  return inReverse({ after });
}
