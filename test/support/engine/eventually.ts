import { setTimeout as delay } from 'node:timers/promises';

/**
 * Tries `check` until it stops throwing; throws its last error after `withinMs`. Resolves with what it returned. Give `assert.ok` a
 * message in it: without one, Node parses the test's source for every failure and blocks the event loop for long.
 */
export async function eventually<T>(check: () => T | Promise<T>, withinMs = 60_000): Promise<T> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await delay(25);
  }
}
