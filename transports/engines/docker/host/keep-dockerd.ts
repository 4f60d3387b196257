import { setTimeout as delay } from 'node:timers/promises';
import type { Ending } from '../../../../proto/ports/ending.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import { privateDockerHost, startPrivateDockerd } from './private-dockerd.ts';

/** How often it is looked after. */
const LOOK_EVERY_MS = 2000;
/** Longest wait after a start that failed; it doubles from the one above. */
const LONGEST_WAIT_MS = 60_000;

/**
 * Starts the private dockerd of a data folder again whenever it has ended, as a machine's own would be by its init.
 * Until closed, which waits for a start under way; dockerd itself goes on.
 */
export function keepPrivateDockerd(options: {
  readonly dataDir: string;
  readonly log: Log;
  readonly lookEveryMs?: number;
}): Ending {
  const { dataDir, log, lookEveryMs = LOOK_EVERY_MS } = options;
  const stop = new AbortController();
  const run = async (): Promise<void> => {
    let wait = lookEveryMs;
    for (;;) {
      await delay(wait, undefined, { signal: stop.signal });
      try {
        if ((await privateDockerHost(dataDir)) === undefined) {
          log.warn({}, 'the private dockerd has ended, and is started again');
          await startPrivateDockerd({ dataDir, log });
        }
        wait = lookEveryMs;
      } catch (error) {
        wait = Math.min(LONGEST_WAIT_MS, wait * 2);
        log.error({ err: error, nextInMs: wait }, 'the private dockerd cannot be started again');
      }
    }
  };
  const done = run().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    close: () => {
      stop.abort();
      return done;
    },
  };
}
