import { setTimeout as delay } from 'node:timers/promises';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { ClusterCache } from './cache.ts';
import { deleteIfThere, getIfThere, type KubeClient } from './client.ts';
import { listAll } from './find.ts';
import type { KubeNaming } from './naming.ts';
import { hasEnded, type PodView, podView } from './views.ts';

/** How long a pod may take to go after its grace, ms. */
const GONE_MS = 90_000;

/** Where a pod is: `Found` is such a place. */
export interface PodPlace {
  readonly namespace: string;
  /** Its name. */
  readonly pod: string;
}

/** The pods of one installation: one in each container's namespace, or none; two while one takes another's place. */
export class Pods {
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #cache: () => ClusterCache | undefined;

  /** `cache`: what a watch knows of the cluster, while one stands. */
  constructor(client: KubeClient, naming: KubeNaming, cache: () => ClusterCache | undefined) {
    this.#client = client;
    this.#naming = naming;
    this.#cache = cache;
  }

  /** All pods of this installation. */
  list(): Promise<PodView[]> {
    return listAll(this.#client, '/api/v1/pods', podView, { labelSelector: this.#naming.selector() });
  }

  /** All pods of a container, in its namespace. */
  allOf(id: string, namespace: string): Promise<PodView[]> {
    const labelSelector = this.#naming.selector(id);
    return listAll(this.#client, `/api/v1/namespaces/${namespace}/pods`, podView, { labelSelector });
  }

  /** The pod of a name in a container's namespace. */
  of(place: PodPlace): Promise<PodView | undefined> {
    return getIfThere(this.#client, pathOf(place), podView);
  }

  /** Follows what becomes of a pod. */
  follow(pod: PodView): PodFollower {
    return new PodFollower({ cache: this.#cache, ask: (place) => this.of(place) }, pod);
  }

  /** Deletes the pod and waits until it is gone. Resolves with what was seen of it last; undefined: there was none. */
  async delete(place: PodPlace, graceSeconds = 1): Promise<PodView | undefined> {
    const path = pathOf(place);
    let last = await this.of(place);
    if (last === undefined) return undefined;
    const { uid } = last.metadata;
    const ask = (gracePeriodSeconds: number): Promise<void> =>
      deleteIfThere(this.#client, path, { gracePeriodSeconds, preconditions: { uid } });
    // No grace at all would take the pod from the books while it still runs.
    await ask(Math.max(1, Math.round(graceSeconds)));
    const deadline = Date.now() + graceSeconds * 1000 + GONE_MS;
    const follower = this.follow(last);
    for (;;) {
      const now = await follower.next();
      if (now === undefined) return last;
      last = now;
      // Its node has said that all of it ended; to tidy up it may take many seconds more.
      if (now.metadata.deletionTimestamp != null && hasEnded(now)) await ask(0);
      if (Date.now() > deadline) {
        throw new EngineError('unavailable', 'The container does not go: its node may be away.');
      }
    }
  }
}

/** Where a pod is. */
export function placeOf({ metadata }: PodView): PodPlace {
  return { namespace: metadata.namespace, pod: metadata.name };
}

/** The path of a pod. */
export function pathOf({ namespace, pod }: PodPlace): string {
  return `/api/v1/namespaces/${namespace}/pods/${pod}`;
}

/** A pod that a watch knows is asked for once in so long, ms: the watch may be silent, and nobody has noticed yet. */
const DOUBT_MS = 15_000;
/** Who follows is told at least so often, changed or not: it counts time. ms */
const TICK_MS = 1000;

/** Where pods are known from. */
interface PodSources {
  /** What a watch knows; undefined while none stands. */
  readonly cache: () => ClusterCache | undefined;
  /** Asks the API server. */
  readonly ask: (place: PodPlace) => Promise<PodView | undefined>;
}

/**
 * Follows one pod through its changes: by a watch where one stands, so that waiting for many pods costs the API server
 * nothing, else by asking again and again, less and less often.
 */
export class PodFollower {
  readonly #sources: PodSources;
  readonly #place: PodPlace;
  readonly #uid: string;
  #askedAt = Date.now();
  #pauseMs = 50;

  /** Begins with the pod as the API server just told it. */
  constructor(sources: PodSources, pod: PodView) {
    this.#sources = sources;
    this.#place = placeOf(pod);
    this.#uid = pod.metadata.uid;
  }

  /** Waits for a change, or a moment. Resolves with the pod; undefined: it is gone. Rejects as the API server does. */
  async next(): Promise<PodView | undefined> {
    const { namespace, pod: name } = this.#place;
    const cache = this.#sources.cache();
    if (cache?.isCurrent('pods') !== true) {
      await delay(this.#pauseMs);
      this.#pauseMs = Math.min(1000, this.#pauseMs * 1.3);
    } else {
      await cache.podChange(namespace, name, TICK_MS);
    }
    const known = this.#sources.cache()?.pod(namespace, name);
    // What is not known yet, or not any more, only the API server knows for sure.
    if (known?.metadata.uid === this.#uid && Date.now() - this.#askedAt < DOUBT_MS) return known;
    const pod = await this.#sources.ask(this.#place);
    this.#askedAt = Date.now();
    return pod?.metadata.uid === this.#uid ? pod : undefined;
  }
}
