/** For what may wait until the page has been drawn. */

/** At most, also in a tab that is not seen and so not drawn, ms. */
const MOST_WAIT_MS = 500;
/** Where the browser cannot tell when it has nothing to do, ms. */
const GUESS_MS = 100;

/** Calls `run` once, when the browser has nothing to do. */
export function whenIdle(run: () => void): void {
  if ('requestIdleCallback' in globalThis) requestIdleCallback(run, { timeout: MOST_WAIT_MS });
  else setTimeout(run, GUESS_MS);
}
