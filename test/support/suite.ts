/** What the tests of a `describe` share. */
import { after } from 'node:test';

/** Ends what is handed to it after the tests of the `describe` in which it is called, the last first. */
export function suiteCleanup(): { after(end: () => unknown): void } {
  const ends: (() => unknown)[] = [];
  after(async () => {
    for (const end of ends) await end();
  });
  return { after: (end) => void ends.unshift(end) };
}
