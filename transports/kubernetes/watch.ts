import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Ending, Log } from '../../proto/ports.ts';
import { textOf } from '../docker/errors.ts';
import { jsonLines } from '../docker/json-lines.ts';
import type { KubeClient } from './client.ts';
import { kubeStatus } from './client.ts';
import { isReply, KubeReplyError } from './errors.ts';
import type { KubeNaming } from './naming.ts';
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

/** What changed is all we want to know: metadata alone is sent. */
const listAccept = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';
const watchAccept = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json';
const listHead = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const event = z.object({ type: z.string(), object: z.unknown() });
const eventObject = z.object({ metadata: metadataView.partial() });

/**
 * `Engine.watch`: two watches, of namespaces and of pods, that go on from the last version they heard of. A server that closes one in order
 * is asked again without a word; whenever sight was lost it tells to look at all. A version the server has forgotten (410) is found anew.
 */
export function watchCluster(
  client: KubeClient,
  naming: KubeNaming,
  log: Log,
  onChange: (id: string | undefined) => void,
  times: KubeWatchTimes,
): Ending {
  const stop = new AbortController();
  let seen = 0;
  const seesAgain = (isFirst: boolean): void => {
    if (stop.signal.aborted) return;
    // The first look waits for both.
    if (isFirst) seen += 1;
    if (seen === 2) onChange(undefined);
  };
  const changed = (id: string): void => {
    if (!stop.signal.aborted) onChange(id);
  };
  const running = Promise.all(
    ['/api/v1/namespaces', '/api/v1/pods'].map((path) =>
      new Watch(client, naming, log, path, { changed, seesAgain }, times, stop.signal).run(),
    ),
  );
  return {
    close: async () => {
      stop.abort();
      await running;
    },
  };
}

interface Listener {
  changed(id: string): void;
  seesAgain(isFirst: boolean): void;
}

/** One resource. */
class Watch {
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #log: Log;
  readonly #path: string;
  readonly #listener: Listener;
  readonly #times: KubeWatchTimes;
  readonly #signal: AbortSignal;
  /** Where to go on; undefined: nobody knows. */
  #version: string | undefined;
  #isFirst = true;
  #isLost = true;
  #failures = 0;

  constructor(
    client: KubeClient,
    naming: KubeNaming,
    log: Log,
    path: string,
    listener: Listener,
    times: KubeWatchTimes,
    signal: AbortSignal,
  ) {
    this.#client = client;
    this.#naming = naming;
    this.#log = log;
    this.#path = path;
    this.#listener = listener;
    this.#times = times;
    this.#signal = signal;
  }

  async run(): Promise<void> {
    while (!this.#signal.aborted) {
      const begun = Date.now();
      let asked: number | undefined;
      try {
        await this.#once();
      } catch (error) {
        if (this.#signal.aborted) return;
        this.#isLost = true;
        this.#failures += 1;
        if (isReply(error, 410)) this.#version = undefined;
        if (error instanceof KubeReplyError) asked = error.retryAfterMs;
        this.#log.debug({ path: this.#path, reason: textOf(error) }, 'lost sight of the cluster');
      }
      // One that lived for a while may be asked again at once; others less and less often.
      if (Date.now() - begun > 10_000) this.#failures = 0;
      const { firstPauseMs, longestPauseMs } = this.#times;
      const pause = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(this.#failures, 16)) * (0.5 + Math.random());
      await delay(Math.max(pause, Math.min(asked ?? 0, longestPauseMs)), undefined, { signal: this.#signal }).catch(
        () => undefined,
      );
    }
  }

  /** Resolves when the server closed the watch in order. */
  async #once(): Promise<void> {
    const labelSelector = this.#naming.selector();
    this.#version ??= (
      await this.#client.json('GET', this.#path, listHead, {
        query: { labelSelector, limit: 1 },
        accept: listAccept,
        signal: this.#signal,
      })
    ).metadata.resourceVersion;
    const silence = new AbortController();
    const stream = await this.#client.stream(this.#path, {
      query: {
        labelSelector,
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: this.#version,
        timeoutSeconds: 300 + Math.floor(Math.random() * 300),
      },
      accept: watchAccept,
      signal: AbortSignal.any([this.#signal, silence.signal]),
    });
    const timer = setTimeout(() => silence.abort(new Error('silence')), this.#times.silenceMs);
    stream.on('data', () => timer.refresh());
    stream.pause();
    try {
      if (this.#isLost) {
        this.#isLost = false;
        this.#listener.seesAgain(this.#isFirst);
        this.#isFirst = false;
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
    const id = this.#naming.idOf(metadata.labels);
    if (type !== 'BOOKMARK' && id !== undefined) this.#listener.changed(id);
  }
}
