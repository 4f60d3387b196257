import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { errorText } from '../../../lib/errors.ts';
import { backoffMs, WIDE_JITTER } from '../../../lib/waiting.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { jsonLines, listOf } from '../common/calls.ts';
import type { ClusterCache, Resource } from './cache.ts';
import { type KubeClient, kubeStatus } from './client.ts';
import { isReply, KubeReplyError } from './errors.ts';
import type { KubeNaming } from './naming.ts';
import { askerOf } from './network-objects.ts';
import { metadataView } from './views.ts';

/** Times of a watch, ms. */
export interface KubeWatchTimes {
  /** A watch that says nothing for so long, not even a bookmark, is begun anew. */
  readonly silenceMs: number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

/** Used unless told otherwise. The server sends a bookmark about every minute. */
export const defaultKubeWatchTimes: KubeWatchTimes = { silenceMs: 150_000, firstPauseMs: 100, longestPauseMs: 30_000 };

const listHead = z.object({
  items: listOf(z.unknown()),
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().default('') }),
});
const event = z.object({ type: z.string(), object: z.unknown() });
const eventObject = z.object({ metadata: metadataView.partial() });
const PAGE_SIZE = 500;

/**
 * `Engine.watch`: watches of namespaces, pods and services, that go on from the last version they heard of. A server
 * that closes one in order is asked again without a word; whenever sight was lost it tells to look at all. A version
 * the server has forgotten (410) is found anew. What they hear of is in `cache`.
 */
export function watchCluster(
  client: KubeClient,
  naming: KubeNaming,
  log: Log,
  onChange: (id: string | undefined) => void,
  times: KubeWatchTimes,
  cache: ClusterCache,
): Ending {
  const stop = new AbortController();
  const resources: readonly Resource[] = ['namespaces', 'pods', 'services'];
  const waiting = new Set(resources);
  const running = Promise.all(
    resources.map((resource) =>
      new ResourceWatch(client, {
        path: `/api/v1/${resource}`,
        selector: resource === 'services' ? naming.selectorOfAll : naming.selector(),
        log,
        times,
        signal: stop.signal,
        listed: (items) => cache.listed(resource, items),
        sees: () => {
          cache.stands(resource, true);
          waiting.delete(resource);
          // The first look waits for all.
          if (waiting.size === 0 && !stop.signal.aborted) onChange(undefined);
        },
        lost: () => cache.stands(resource, false),
        changed: (type, { metadata, object }) => {
          cache.changed(resource, type, object);
          const id = naming.idOf(metadata.labels) ?? askerOf(metadata.labels);
          // Before the first look, that look is at it, too.
          if (id !== undefined && waiting.size === 0 && !stop.signal.aborted) onChange(id);
        },
      }).run(),
    ),
  );
  return {
    close: async () => {
      stop.abort();
      await running;
    },
  };
}

/** An object of an event: of its metadata only what was sent. */
interface Changed {
  readonly metadata: z.output<typeof eventObject>['metadata'];
  /** The object whole, as it was sent. */
  readonly object: unknown;
}

/** What a watch of one resource is told, and tells. */
interface ResourceWatchOptions {
  readonly path: string;
  readonly selector: string;
  readonly log: Log;
  readonly times: KubeWatchTimes;
  /** Ends it. */
  readonly signal: AbortSignal;
  /** All there is, at first and whenever the server has forgotten where the watch was. */
  readonly listed: (items: readonly unknown[]) => void;
  /** The watch stands, for the first time or after it was lost. */
  readonly sees: () => void;
  /** `ADDED`, `MODIFIED` or `DELETED`. */
  readonly changed: (type: string, change: Changed) => void;
  /** It was lost, or could not be begun: why. */
  readonly lost?: (reason: string) => void;
  /** Each call that is made. */
  readonly onCall?: () => void;
}

/** Watches one resource. */
export class ResourceWatch {
  readonly #client: KubeClient;
  readonly #options: ResourceWatchOptions;
  /** Where to go on; undefined: nobody knows. */
  #version: string | undefined;
  #isLost = true;
  #failures = 0;

  constructor(client: KubeClient, options: ResourceWatchOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** Watches until `signal` aborts, and never rejects. */
  async run(): Promise<void> {
    const { signal, path, log, times } = this.#options;
    while (!signal.aborted) {
      const begun = Date.now();
      let asked: number | undefined;
      try {
        await this.#once();
      } catch (error) {
        if (signal.aborted) return;
        this.#isLost = true;
        this.#failures += 1;
        if (isReply(error, 410)) this.#version = undefined;
        if (error instanceof KubeReplyError) asked = error.retryAfterMs;
        log.debug({ path, reason: errorText(error) }, 'lost sight of the cluster');
        this.#options.lost?.(errorText(error));
      }
      // One that lived for a while may be asked again at once; others less and less often.
      if (Date.now() - begun > 10_000) this.#failures = 0;
      const { firstPauseMs, longestPauseMs } = times;
      const pause = backoffMs(this.#failures, { minMs: firstPauseMs, maxMs: longestPauseMs }, WIDE_JITTER);
      await delay(Math.max(pause, Math.min(asked ?? 0, longestPauseMs)), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Resolves with the version to go on from. */
  async #list(): Promise<string> {
    const { path, selector, signal, listed, onCall } = this.#options;
    const items: unknown[] = [];
    for (let next = ''; ; ) {
      onCall?.();
      const more = next === '' ? {} : { continue: next };
      const { metadata, items: page } = await this.#client.json('GET', path, listHead, {
        query: { labelSelector: selector, limit: PAGE_SIZE, ...more },
        signal,
      });
      items.push(...page);
      next = metadata.continue;
      if (next !== '') continue;
      listed(items);
      return metadata.resourceVersion;
    }
  }

  /** Resolves when the server closed the watch in order. */
  async #once(): Promise<void> {
    const { path, selector, signal, sees, onCall, times } = this.#options;
    this.#version ??= await this.#list();
    const silence = new AbortController();
    onCall?.();
    const stream = await this.#client.stream(path, {
      query: {
        labelSelector: selector,
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: this.#version,
        timeoutSeconds: 300 + Math.floor(Math.random() * 300),
      },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    const timer = setTimeout(() => silence.abort(new Error('silence')), times.silenceMs);
    stream.on('data', () => timer.refresh());
    stream.pause();
    try {
      if (this.#isLost && !signal.aborted) {
        this.#isLost = false;
        sees();
      }
      for await (const line of jsonLines(stream, 4 * 1024 * 1024)) {
        this.#failures = 0;
        this.#take(line);
      }
    } finally {
      clearTimeout(timer);
      stream.destroy();
    }
  }

  #take(line: unknown): void {
    const parsed = event.safeParse(line);
    if (!parsed.success) throw new Error('an event that is none');
    const { type, object } = parsed.data;
    if (type === 'ERROR') {
      const { code, reason, message, details } = kubeStatus.parse(object);
      const seconds = details?.retryAfterSeconds;
      throw new KubeReplyError(code || 500, reason, message, seconds === undefined ? undefined : seconds * 1000);
    }
    const { metadata } = eventObject.parse(object);
    if (metadata.resourceVersion) this.#version = metadata.resourceVersion;
    if (type !== 'BOOKMARK' && !this.#options.signal.aborted) this.#options.changed(type, { metadata, object });
  }
}
