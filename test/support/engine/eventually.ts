import { until } from '../until.ts';

/**
 * Tries `check` until it stops throwing; throws its last error after `withinMs`. Resolves with what it returned. Give `assert.ok` a
 * message in it: without one, Node parses the test's source for every failure and blocks the event loop for long.
 */
export async function eventually<T>(check: () => T | Promise<T>, withinMs = 60_000): Promise<T> {
  let failure: unknown;
  const attempt = async () => {
    try {
      return { result: await check() };
    } catch (error) {
      failure = error;
      return undefined;
    }
  };
  const { result } = await until(attempt, { timeoutMs: withinMs, everyMs: 25 }).catch(() => {
    throw failure;
  });
  return result;
}
