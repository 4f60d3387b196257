import { z } from 'zod';
import {
  type ContainerSpec,
  EngineError,
  type OnceOutcome,
  type RunOnceOptions,
  type Workload,
} from '../../../proto/ports/engine.ts';
import { cleanReason } from '../common/calls.ts';
import type { KubeClient } from './client.ts';
import { type Found, foundOf } from './find.ts';
import { readKubeLogs } from './logs.ts';
import {
  type ClusterSettings,
  dataMounts,
  dataVolume,
  environmentManifest,
  FILL_SCRIPT,
  foldersOf,
  keptSpec,
  namespaceManifest,
  policyManifest,
} from './manifests.ts';
import { type KubeNaming, names } from './naming.ts';
import { confinedOf, podOf } from './pod-frame.ts';
import type { PodStarter } from './pod-start.ts';
import { runOf } from './pod-workload.ts';
import type { Pods } from './pods.ts';
import type { KubeSuccessors } from './successors.ts';
import { hasEnded, NO_ROOM, objectView, type PodView, workloadOf } from './views.ts';

const anything = z.unknown();
const LAST_LINES = 20;
/** A pod that nobody waits for any more is ended by its node: so long it may take to begin. */
const BEGIN_SECONDS = 15 * 60;

/** What `KubeOnce` works with. */
interface KubeOnceParts {
  readonly client: KubeClient;
  readonly naming: KubeNaming;
  readonly settings: ClusterSettings;
  readonly pods: Pods;
  readonly starter: Pick<PodStarter, 'ensurePullSecret' | 'write' | 'runs'>;
  readonly successors: () => Pick<KubeSuccessors, 'tellApart'>;
  /** The container, also one of which only the data is left; undefined: there is none. */
  look(id: string): Promise<Found | undefined>;
}

/**
 * Commands that run once, each in the pod `once` of the container's namespace. It has the labels of the container's
 * pods, so the policies of the container and of its private network hold for it, and whoever watches pods sees it.
 * Service and alias lead to the pod that is the container, by its name. Its variables are in a secret of its own: that
 * of the container's is what runs on. It is there for no longer than the pod.
 */
export class KubeOnce {
  readonly #parts: KubeOnceParts;
  /** Those that somebody here waits for, by container. */
  readonly #awaited = new Map<string, { isEnded: boolean }>();

  constructor(parts: KubeOnceParts) {
    this.#parts = parts;
  }

  /** As `Engine.runOnce`. It is in the private network of its namespace. */
  async run(spec: ContainerSpec, workload: Workload, options: RunOnceOptions): Promise<OnceOutcome> {
    const { id } = spec;
    const { signal } = options;
    const found = (await this.#parts.look(id)) ?? (await this.#reserve(spec));
    const place = { ...found, pod: names.once, spec: keptSpec(spec, found.spec) };
    this.giveUp(id);
    await this.#remove(place);
    signal.throwIfAborted();
    const awaited = { isEnded: false };
    this.#awaited.set(id, awaited);
    let uid: string | undefined;
    try {
      await this.#surround(spec, found);
      const made = await this.#make(found, place, workload, options);
      uid = made.metadata.uid;
      const outcome = await this.#outcome(place, await this.#begun(place, made, signal), options);
      if (awaited.isEnded) throw isGone();
      return outcome;
    } catch (error) {
      signal.throwIfAborted();
      throw awaited.isEnded && error instanceof EngineError ? isGone(error) : error;
    } finally {
      if (this.#awaited.get(id) === awaited) this.#awaited.delete(id);
      // What cannot be removed now is a leftover. It may be another's by now.
      await this.#remove(place, uid).catch(() => undefined);
    }
  }

  /** Whether somebody here waits for one. */
  isAwaited(id: string): boolean {
    return this.#awaited.has(id);
  }

  /** Nobody waits for it any more: it is about to be ended. */
  giveUp(id: string): void {
    const awaited = this.#awaited.get(id);
    if (awaited !== undefined) awaited.isEnded = true;
    this.#awaited.delete(id);
  }

  /** Its variables go. They are written, and never read: without a name the secret says nothing. */
  async forget(found: Pick<Found, 'id' | 'userId' | 'namespace'>): Promise<void> {
    await this.#tell(found, { env: {} });
  }

  /** `uid`: only that very pod. */
  async #remove(place: Found, uid?: string): Promise<void> {
    const { pods } = this.#parts;
    const present = await pods.of(place);
    if (present === undefined || (uid !== undefined && present.metadata.uid !== uid)) return;
    await this.forget(place);
    await pods.delete(place, 0);
  }

  /** A namespace as one has in which only the data of a container is left. */
  async #reserve(spec: ContainerSpec): Promise<Found> {
    const { client, naming } = this.#parts;
    const path = `/api/v1/namespaces/${naming.namespace(spec.userId, spec.id)}`;
    const made = await client.apply(path, namespaceManifest(naming, spec, keptSpec(spec), 'kept'), objectView);
    const found = foundOf(naming, made);
    if (found === undefined)
      throw new EngineError('unavailable', 'What was in the container before is still being removed.');
    return found;
  }

  /** What it may reach is so, and nobody is led to it, before it begins. */
  async #surround(spec: ContainerSpec, found: Found): Promise<void> {
    const { client, naming, settings, successors } = this.#parts;
    const { path, body } = policyManifest(naming, spec, settings);
    await client.apply(path, body, anything);
    await successors().tellApart(found);
  }

  async #make(found: Found, place: Found, workload: Workload, { timeoutMs }: RunOnceOptions): Promise<PodView> {
    const { naming, settings, starter } = this.#parts;
    await this.#tell(place, workload);
    const hasPullSecret = await starter.ensurePullSecret(place);
    const hasData = place.spec.mountPaths.length > 0;
    // What it has not is empty, or as its image has it, and goes with it.
    const data = { mountPaths: hasData ? place.spec.mountPaths : found.spec.mountPaths };
    const confined = confinedOf(place.spec, settings, hasPullSecret);
    const fill = {
      name: names.prepare,
      ...confined,
      command: ['/bin/sh', '-c', FILL_SCRIPT, 'prepare', ...foldersOf(data)],
      volumeMounts: [{ name: 'data', mountPath: '/troupe/data' }],
    };
    const body = podOf(naming, place, settings, hasPullSecret, {
      initContainers: data.mountPaths.length === 0 ? [] : [fill],
      containers: [
        { name: names.container, ...confined, ...runOf(workload, false, names.once), volumeMounts: dataMounts(data) },
      ],
      volumes: data.mountPaths.length === 0 ? [] : [hasData ? dataVolume : { name: 'data', emptyDir: {} }],
      activeDeadlineSeconds: BEGIN_SECONDS + Math.ceil(timeoutMs / 1000),
    });
    const made = await starter.write(place, body);
    if (made.metadata.deletionTimestamp != null) throw isGone();
    return made;
  }

  /** Writes its variables. */
  async #tell({ id, userId, namespace }: Pick<Found, 'id' | 'userId' | 'namespace'>, how: Pick<Workload, 'env'>) {
    const { client, naming } = this.#parts;
    const secret = environmentManifest(namespace, naming.labelsOf(userId, id), how, names.once);
    await client.apply(`/api/v1/namespaces/${namespace}/secrets/${names.once}`, secret, anything);
  }

  /** Waits until it runs, or has ended. */
  async #begun(place: Found, made: PodView, signal: AbortSignal): Promise<PodView> {
    const withoutShell = async (): Promise<never> => {
      throw new EngineError('refused', 'The image has no /bin/sh, which a command that is run once needs.');
    };
    try {
      return await this.#parts.starter.runs(place.spec.image, made, withoutShell, signal);
    } catch (error) {
      throw forOnce(error);
    }
  }

  /** Waits for its end, and reads what it said. */
  async #outcome(place: Found, begun: PodView, { timeoutMs, signal }: RunOnceOptions): Promise<OnceOutcome> {
    const { pods } = this.#parts;
    const until = performance.now() + timeoutMs;
    const follower = pods.follow(begun);
    for (let pod: PodView | undefined = begun; ; pod = await follower.next()) {
      signal.throwIfAborted();
      if (pod === undefined || pod.metadata.deletionTimestamp != null) throw isGone();
      const { reason, message } = pod.status;
      if (reason === 'DeadlineExceeded' || (performance.now() > until && !hasEnded(pod)))
        return { exitCode: null, oomKilled: false, lines: await this.#lastLines(place, signal) };
      if (!hasEnded(pod)) continue;
      const over = workloadOf(pod)?.state.terminated;
      const why = cleanReason(message) || reason;
      // More than its node lets it write, and not what its node lacks.
      if (reason === 'Evicted' && /ephemeral local storage|EmptyDir volume/.test(message))
        throw new EngineError('refused', `It was ended, since it wrote too much: ${why}`);
      if (over === undefined || reason === 'Evicted')
        throw new EngineError('unavailable', `Its node ended it: ${why || 'nobody says why'}`);
      const lines = await this.#lastLines(place, signal);
      return { exitCode: over.exitCode, oomKilled: over.reason === 'OOMKilled', lines };
    }
  }

  /** Empty when its node does not say: how it ended is known. */
  async #lastLines(place: Found, signal: AbortSignal): Promise<string[]> {
    const { client, pods } = this.#parts;
    const found = { mustFind: async () => place, pods };
    const lines: string[] = [];
    try {
      for await (const batch of readKubeLogs(client, found, place.id, { tail: LAST_LINES, follow: false, signal }))
        lines.push(...batch);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
    }
    signal.throwIfAborted();
    return lines.slice(-LAST_LINES);
  }
}

/** What is in the way of its pod, and what to do. */
function forOnce(error: unknown): unknown {
  if (!(error instanceof EngineError) || !error.message.startsWith(NO_ROOM)) return error;
  const said = error.message.slice(NO_ROOM.length).replace(/\.?$/, '.');
  const what = 'No node of the cluster has room for the pod in which the release command runs';
  return new EngineError('unavailable', `${what}${said} Make room, or give the container less memory.`, {
    cause: error,
  });
}

function isGone(cause?: unknown): EngineError {
  return new EngineError('unavailable', 'It was removed meanwhile.', { cause });
}
