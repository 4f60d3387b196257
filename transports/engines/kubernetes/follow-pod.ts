import { setTimeout as delay } from 'node:timers/promises';
import type { ClusterCache } from './cache.ts';
import { names } from './naming.ts';
import type { PodView } from './views.ts';

/** A pod that a watch knows is asked for once in so long, ms: the watch may be silent, and nobody has noticed yet. */
const DOUBT_MS = 15_000;
/** Who follows is told at least so often, changed or not: it counts time. ms */
const TICK_MS = 1000;

/** Where pods are known from. */
interface PodSources {
  /** What a watch knows; undefined while none stands. */
  readonly cache: () => ClusterCache | undefined;
  /** Asks the API server. */
  readonly ask: (namespace: string) => Promise<PodView | undefined>;
}

/**
 * Follows one pod through its changes: by a watch where one stands, so that waiting for many pods costs the API server
 * nothing, else by asking again and again, less and less often.
 */
export class PodFollower {
  readonly #sources: PodSources;
  readonly #namespace: string;
  readonly #uid: string;
  #askedAt = Date.now();
  #pauseMs = 50;

  /** Begins with the pod as the API server just told it. */
  constructor(sources: PodSources, { metadata }: PodView) {
    this.#sources = sources;
    this.#namespace = metadata.namespace;
    this.#uid = metadata.uid;
  }

  /** Waits for a change, or a moment. Resolves with the pod; undefined: it is gone. Rejects as the API server does. */
  async next(): Promise<PodView | undefined> {
    const cache = this.#sources.cache();
    if (cache?.isCurrent('pods') !== true) {
      await delay(this.#pauseMs);
      this.#pauseMs = Math.min(1000, this.#pauseMs * 1.3);
    } else {
      await cache.podChange(this.#namespace, names.pod, TICK_MS);
    }
    const known = this.#sources.cache()?.pod(this.#namespace, names.pod);
    // What is not known yet, or not any more, only the API server knows for sure.
    if (known?.metadata.uid === this.#uid && Date.now() - this.#askedAt < DOUBT_MS) return known;
    const pod = await this.#sources.ask(this.#namespace);
    this.#askedAt = Date.now();
    return pod?.metadata.uid === this.#uid ? pod : undefined;
  }
}
