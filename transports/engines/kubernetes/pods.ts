import { EngineError } from '../../../proto/ports/engine.ts';
import type { ClusterCache } from './cache.ts';
import type { KubeClient } from './client.ts';
import { listAll } from './find.ts';
import { PodFollower } from './follow-pod.ts';
import { type KubeNaming, names } from './naming.ts';
import { deleteIfThere, getIfThere } from './objects.ts';
import { hasEnded, type PodView, podView } from './views.ts';

/** How long a pod may take to go after its grace, ms. */
const GONE_MS = 90_000;

/** The pods of one installation: one in each container's namespace, or none. */
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

  /** The pod of a container's namespace. */
  of(namespace: string): Promise<PodView | undefined> {
    return getIfThere(this.#client, `/api/v1/namespaces/${namespace}/pods/${names.pod}`, podView);
  }

  /** Follows what becomes of a pod. */
  follow(pod: PodView): PodFollower {
    return new PodFollower({ cache: this.#cache, ask: (namespace) => this.of(namespace) }, pod);
  }

  /** Deletes the pod and waits until it is gone. Resolves with what was seen of it last; undefined: there was none. */
  async delete(namespace: string, graceSeconds = 1): Promise<PodView | undefined> {
    const path = `/api/v1/namespaces/${namespace}/pods/${names.pod}`;
    let last = await this.of(namespace);
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
