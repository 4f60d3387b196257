import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { errorText } from '../../../lib/errors.ts';
import { backoffMs, HALF_JITTER } from '../../../lib/waiting.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { jsonLines } from '../common/calls.ts';
import type { DockerClient } from './api/client.ts';
import { labels, type Naming } from './naming.ts';

/** What changes a container's state. `exec_*` events are many, and carry command lines: never asked for. */
const watchedActions = [
  'create',
  'start',
  'die',
  'oom',
  'stop',
  'restart',
  'pause',
  'unpause',
  'update',
  'rename',
  'destroy',
];

const dockerEvent = z.object({
  Type: z.literal('container'),
  Action: z.string(),
  Actor: z.object({ Attributes: z.record(z.string(), z.string()).default({}) }),
});

/** The platform's id of an event's container. Docker writes the name behind the labels, so no label can pass for it. */
export function containerOfEvent(attributes: Readonly<Record<string, string>>, naming: Naming): string | undefined {
  return naming.containerOf({ labels: attributes, names: [`/${attributes.name ?? ''}`] });
}

/** The platform's id in a line of /events, or undefined when it is not a change of a container of this installation. */
export function changedContainer(line: unknown, naming: Naming): string | undefined {
  const event = dockerEvent.safeParse(line);
  if (!event.success || !watchedActions.includes(event.data.Action)) return undefined;
  return containerOfEvent(event.data.Actor.Attributes, naming);
}

/** The stream of the `actions` of this installation's containers, from `since` on, or from now. */
export function openEvents(
  client: DockerClient,
  { installation }: Naming,
  actions: readonly string[],
  signal: AbortSignal,
  since?: string,
): Promise<IncomingMessage> {
  const label = [`${labels.installation}=${installation}`];
  const filters = JSON.stringify({ type: ['container'], label, event: actions });
  return client.stream('GET', '/events', { query: { filters, since }, headTimeoutMs: 5000, signal });
}

/** Times of a watch, in milliseconds. */
export interface WatchTimes {
  /** First and longest wait before connecting again; the wait doubles, with jitter. */
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
  /** How often the engine must answer a ping while a connection stands. */
  readonly checkMs: number;
  /** A connection is replaced after so long: what no ping finds out (a stream cut on one side) heals by itself. */
  readonly renewMs: number;
}

/** Used unless told otherwise. */
export const defaultWatchTimes: WatchTimes = {
  firstDelayMs: 200,
  longestDelayMs: 5000,
  checkMs: 10_000,
  renewMs: 600_000,
};

/** `Engine.watch` on Docker: follows /events, connecting again until closed. */
export function watchEvents(
  client: DockerClient,
  naming: Naming,
  log: Log,
  onChange: (id: string | undefined) => void,
  times: WatchTimes = defaultWatchTimes,
): Ending {
  const stop = new AbortController();

  /** Follows one connection to its end. Resolves with whether it ever stood. */
  const follow = async (): Promise<boolean> => {
    const connection = new AbortController();
    const end = (): void => connection.abort();
    stop.signal.addEventListener('abort', end);
    let checking: ReturnType<typeof setInterval> | undefined;
    let renewal: ReturnType<typeof setTimeout> | undefined;
    let renewed = false;
    let stood = false;
    try {
      const stream = await openEvents(client, naming, watchedActions, connection.signal);
      // The engine may be gone without a word (a frozen process, a lost network): it must answer a ping.
      renewal = setTimeout(() => {
        renewed = true;
        end();
      }, times.renewMs);
      checking = setInterval(() => void client.ping().catch(end), times.checkMs);
      stood = true;
      onChange(undefined);
      for await (const line of jsonLines(stream)) {
        const id = changedContainer(line, naming);
        if (id !== undefined) onChange(id);
      }
    } catch (error) {
      if (!stop.signal.aborted && !renewed)
        log.warn({ reason: errorText(error) }, 'lost the event stream of the container engine');
    } finally {
      clearInterval(checking);
      clearTimeout(renewal);
      stop.signal.removeEventListener('abort', end);
      connection.abort();
    }
    return stood;
  };

  const run = async (): Promise<void> => {
    const bounds = { minMs: times.firstDelayMs, maxMs: times.longestDelayMs };
    let failures = 0;
    while (!stop.signal.aborted) {
      if (await follow()) failures = 0;
      if (stop.signal.aborted) return;
      const pause = backoffMs(failures, bounds, HALF_JITTER);
      await delay(pause, undefined, { signal: stop.signal }).catch(() => undefined);
      failures += 1;
    }
  };

  const done = run();
  return {
    close: () => {
      stop.abort();
      return done;
    },
  };
}
