import { z } from 'zod';
import { EngineError, type RegistryAuth } from '../../../proto/ports/engine.ts';
import type { KubeClient } from './client.ts';
import { isReply } from './errors.ts';
import type { Found } from './find.ts';
import { type ClusterSettings, type PodOptions, podManifest, pullSecretManifest } from './manifests.ts';
import { type KubeNaming, names } from './naming.ts';
import { nodeImage, pullProblem } from './own-images.ts';
import { type PodPlace, type Pods, pathOf } from './pods.ts';
import { hasEnded, hasNoShell, type PodView, podView, problemOf, workloadOf } from './views.ts';

const anything = z.unknown();
/** How long pods may take to start, ms. */
const START_MS = 4 * 60_000;
/** A claim is bound, room is made, and a registry answers again, after a moment. */
const PASSING_MS = 8_000;

/** What pods are started with. */
export interface PodStarterParts {
  readonly client: KubeClient;
  readonly naming: KubeNaming;
  readonly settings: ClusterSettings;
  readonly pods: Pods;
  /** What a node pulls an image with for a user; undefined when it takes nothing. Asked before each start. */
  readonly pullAuth?: (pull: { readonly userId: string; readonly image: string }) => Promise<RegistryAuth | undefined>;
}

/** Starts the pods of containers. */
export class PodStarter {
  readonly #parts: PodStarterParts;

  constructor(parts: PodStarterParts) {
    this.#parts = parts;
  }

  /** Writes what the node pulls the image with. Resolves with whether there is such a thing. */
  async ensurePullSecret({ id, userId, namespace, spec }: Found): Promise<boolean> {
    const { client, naming, settings, pullAuth } = this.#parts;
    const image = nodeImage(spec.image, settings);
    const auth = await pullAuth?.({ userId, image }).catch((cause: unknown) => {
      throw new EngineError('unavailable', `There is no permission to pull ${image} to be had.`, { cause });
    });
    if (auth === undefined || 'registryToken' in auth) return false;
    const body = pullSecretManifest(namespace, naming.labelsOf(userId, id), image, auth);
    await client.apply(`/api/v1/namespaces/${namespace}/secrets/${names.pull}`, body, anything);
    return true;
  }

  /** Makes a pod, or adopts one that another call made meanwhile. */
  apply(found: Found, options: PodOptions): Promise<PodView> {
    const { naming, settings } = this.#parts;
    return this.write(found, podManifest(naming, found, settings, options));
  }

  /** The same, of a pod that is described already. */
  async write(found: PodPlace, body: object): Promise<PodView> {
    const { client } = this.#parts;
    try {
      return await client.apply(pathOf(found), body, podView);
    } catch (error) {
      // One that was made by another call meanwhile is as good, and cannot be changed.
      const present = isReply(error, 422) ? await this.#parts.pods.of(found) : undefined;
      if (present === undefined) throw error;
      return present;
    }
  }

  /** Waits until a pod that was made runs or has ended, and resolves with it. Rejects with what is in its way. */
  untilRunning(found: Found, made: PodView, options: Omit<PodOptions, 'prepares'>): Promise<PodView> {
    return this.runs(found.spec.image, made, async () => {
      // There is nobody to log in either: it runs without keys, on empty mount paths.
      await this.#parts.pods.delete(found);
      return this.apply(found, { prepares: false, ...options });
    });
  }

  /** The same; `withoutShell` makes another one when the image has nothing to prepare it with, or rejects. */
  async runs(
    image: string,
    made: PodView,
    withoutShell: () => Promise<PodView>,
    signal?: AbortSignal,
  ): Promise<PodView> {
    const { pods, settings } = this.#parts;
    const begun = Date.now();
    let prepares = true;
    let problem: EngineError | undefined;
    let follower = pods.follow(made);
    for (let pod: PodView | undefined = made; ; pod = await follower.next()) {
      signal?.throwIfAborted();
      if (pod === undefined) throw new EngineError('unavailable', 'The container was removed while it started.');
      const workload = workloadOf(pod);
      if (workload?.state.running !== undefined) return pod;
      const over = workload?.state.terminated;
      if (over !== undefined && /^(ContainerCannotRun|StartError)$/.test(over.reason)) {
        throw new EngineError('refused', `The container cannot be started: ${over.message || over.reason}`);
      }
      if (prepares && hasNoShell(pod)) {
        prepares = false;
        follower = pods.follow(await withoutShell());
        continue;
      }
      const now = problemOf(pod, nodeImage(image, settings));
      // Between two tries a kubelet says only that it waits.
      if (now === undefined) problem = undefined;
      else if (!now.isVague || problem === undefined) problem = pullProblem(now.error, image, settings);
      if (problem !== undefined && (problem.code !== 'unavailable' || Date.now() - begun > PASSING_MS)) throw problem;
      if (hasEnded(pod)) return pod;
      if (Date.now() - begun > START_MS) throw new EngineError('unavailable', 'The container is not started yet.');
    }
  }
}
