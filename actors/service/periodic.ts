/** Work that is done again and again: by each process, or by one node of the cluster at a time. */
import { setTimeout as pause } from 'node:timers/promises';
import { backoffMs } from '../../lib/waiting.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import { type AnyRef, spawn } from '../../supervision/index.ts';
import { type Placement, startSingleton } from './placement.ts';
import type { Part } from './supervisor.ts';

/** What is done, and when. */
interface PeriodicOptions {
  /** The role of the nodes that do it. */
  readonly service: string;
  readonly name: string;
  readonly everyMs: number;
  /** With it, one node of the cluster does it at a time; without, each process. */
  readonly placement?: Placement | undefined;
  readonly log: Log;
  /** What the log says of a failure. */
  readonly failure: string;
  /** Does it once. A rejection is logged, and left for the next time. */
  readonly work: (signal: AbortSignal) => Promise<unknown>;
  /** What else it is time at: calls `now`, until its end. */
  readonly wake?: (now: () => void) => Ending;
}

/** Added to the wait for the next time after failures in a row. */
const BACKOFF = { minMs: 500, maxMs: 5000 };

/** The part that does it: at once, then every `everyMs`, one run at a time. A time during a run is made up for. */
export function periodic(options: PeriodicOptions): Part {
  const { service, name, placement, log } = options;
  const work = (signal: AbortSignal) => repeat(options, signal);
  return {
    start: (parent) =>
      placement === undefined
        ? startHere(parent, options, work)
        : startSingleton(parent, { service, name, placement, log, work }),
  };
}

function startHere(
  parent: AnyRef,
  { service, name }: PeriodicOptions,
  work: (signal: AbortSignal) => Promise<void>,
): AnyRef {
  return spawn<{ readonly done: Promise<void> }, never>(parent, (state) => state, {
    name,
    kind: `${service}/${name}`,
    initialStateFunc: (ctx) => ({ done: work(ctx.signal) }),
    afterStop: ({ done }) => done,
  });
}

/** Resolves when the signal has aborted and the run that was under way has ended. */
async function repeat(options: PeriodicOptions, signal: AbortSignal): Promise<void> {
  const { everyMs, log, failure, work, wake } = options;
  let ring = () => {};
  const now = () => ring();
  const beat = setInterval(now, everyMs);
  const waking = wake?.(now);
  signal.addEventListener('abort', now, { once: true });
  for (let failures = 0; !signal.aborted; ) {
    // Made before the run: what rings meanwhile is heard after it.
    const rung = new Promise<void>((resolve) => {
      ring = resolve;
    });
    try {
      await work(signal);
      failures = 0;
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, failure);
      failures += 1;
    }
    await rung;
    if (failures > 0) await pause(backoffMs(failures, BACKOFF), undefined, { signal }).catch(() => undefined);
  }
  clearInterval(beat);
  await waking?.close();
}
