import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { STOP_GRACE_SECONDS } from '../../../proto/compute/workload.ts';
import { type ContainerSpec, EngineError, type PrivateNetwork, type Workload } from '../../../proto/ports/engine.ts';
import { deleteIfThere, type KubeClient } from './client.ts';
import { isReply } from './errors.ts';
import { type Found, parseJson } from './find.ts';
import {
  type ClusterSettings,
  environmentManifest,
  keptSpec,
  keysHash,
  secretManifest,
  serviceManifest,
  surroundings,
} from './manifests.ts';
import { isLaterPod, type KubeNaming, labels, names, nextPodName, POD_ANNOTATION, SPEC_ANNOTATION } from './naming.ts';
import { atAnnotation, checkNetwork, placeChange } from './network-objects.ts';
import type { PodStarter } from './pod-start.ts';
import { type Pods, pathOf, placeOf } from './pods.ts';
import type { KubePrivateNetworks } from './private-networks.ts';
import { keptSpecView, NO_ROOM, type PodView, workloadOf } from './views.ts';

/** What `KubeSuccessors` works with. */
interface KubeSuccessorParts {
  readonly client: KubeClient;
  readonly naming: KubeNaming;
  readonly settings: ClusterSettings;
  readonly pods: Pods;
  readonly starter: Pick<PodStarter, 'ensurePullSecret' | 'apply' | 'untilRunning'>;
  readonly networks: Pick<KubePrivateNetworks, 'lead'>;
  /** The container; undefined: there is none. */
  find(id: string): Promise<Found | undefined>;
  readonly once: {
    /** Whether somebody here waits for a command of this container that runs once. */
    isAwaited(id: string): boolean;
    /** Its variables go: before its pod does, so that whoever comes after a crash in between finds the pod. */
    forget(found: Found): Promise<void>;
  };
}

const anything = z.unknown();
const MERGE = 'application/merge-patch+json';
/** A spec that changes at the moment of a promotion is read again so often. */
const TRIES = 10;

/**
 * A second pod beside the one of a container, in the same namespace and with the same keys: first its successor, which
 * takes its place, then its predecessor, whose place was taken. An annotation of the namespace names the pod that is
 * the container. It is written in one step, together with what the container is from then on. Each pod has a number:
 * the successor has the one after that of the container's pod, so whoever finds pods knows what each of them is,
 * whatever was begun before by a platform that was killed.
 *
 * The service of a container leads to the pod of that name, and so does its alias in a private network. They follow a
 * moment later: until the predecessor is ended, both serve. Both pods are in the network of their namespace.
 */
export class KubeSuccessors {
  readonly #parts: KubeSuccessorParts;
  /** The pods that were begun here, by container: nobody else's is promoted in their place. */
  readonly #begun = new Map<string, string>();

  constructor(parts: KubeSuccessorParts) {
    this.#parts = parts;
  }

  /** As `Engine.beginSuccessor`. */
  async begin(
    spec: ContainerSpec,
    authorizedKeys: readonly string[],
    workload: Workload | undefined,
    network: PrivateNetwork | undefined,
  ): Promise<void> {
    const { client, naming, settings, starter, networks } = this.#parts;
    const { id, userId, mountPaths, stopGraceSeconds = STOP_GRACE_SECONDS } = spec;
    if (mountPaths.length > 0)
      throw new EngineError('refused', 'A container with mount paths has no successor: two would write to them.');
    if (network !== undefined) checkNetwork(network);
    const found = await this.#mustFind(id);
    const kept = keptSpec(spec, found.spec);
    const { namespace } = found;
    const present = await this.#parts.pods.of(found);
    if (present === undefined || workloadOf(present)?.state.running === undefined)
      throw new EngineError('not_running', 'The container is not running.');
    await this.end(found, stopGraceSeconds);
    await this.#mark(found, present);
    // Those who ask by its alias do not meet the other one before it is ready.
    await networks.lead(found);
    const next = { ...found, pod: nextPodName(found.pod), spec: kept };
    const own = naming.labelsOf(userId, id);
    const secrets = `/api/v1/namespaces/${namespace}/secrets`;
    const secret = secretManifest(namespace, own, authorizedKeys, workload);
    const environment = workload && environmentManifest(namespace, own, workload);
    await Promise.all([
      client.apply(`${secrets}/${names.secret}`, secret, anything),
      ...(environment === undefined ? [] : [client.apply(`${secrets}/${names.environment}`, environment, anything)]),
      // The two share what they may reach.
      ...surroundings(naming, spec, settings, found.pod).map(({ path, body }) => client.apply(path, body, anything)),
    ]);
    const hasPullSecret = await starter.ensurePullSecret(next);
    const how = { hasPullSecret, keysHash: keysHash(authorizedKeys), workload };
    const made = await starter.apply(next, { prepares: true, ...how });
    if (made.metadata.annotations[SPEC_ANNOTATION] !== JSON.stringify(kept) || isGoing(made))
      throw new EngineError('unavailable', 'Another successor is being made.');
    const { metadata } = await starter.untilRunning(next, made, how).catch((error: unknown) => {
      throw forSecond(error);
    });
    this.#begun.set(id, metadata.uid);
  }

  /** As `Engine.promote`. */
  async promote(id: string, network: PrivateNetwork | undefined): Promise<void> {
    let target: string | undefined;
    for (let tries = 1; ; tries += 1) {
      const found = await this.#mustFind(id);
      // The answer to a try before was lost.
      if (found.pod === target) break;
      const successor = await this.#parts.pods.of({ ...found, pod: nextPodName(found.pod) });
      const begun = this.#begun.get(id);
      const isOther = begun !== undefined && begun !== successor?.metadata.uid;
      if (successor === undefined || isGoing(successor) || isOther)
        throw new EngineError('not_found', `There is no successor of ${id}.`);
      target = successor.metadata.name;
      if (await this.#give(found, successor, network)) break;
      if (tries === TRIES) throw new EngineError('unavailable', 'The container is changed by somebody else.');
      await delay(50 * tries);
    }
    this.#begun.delete(id);
    // It is the container now, whatever follows. Before the predecessor is ended, this is done again.
    const found = await this.#mustFind(id);
    await Promise.allSettled([this.#lead(found), this.#parts.networks.lead(found)]);
  }

  /** As `Engine.endOthers`. A command that runs once, and is waited for here, is none of them. */
  async end(found: Found, graceSeconds: number): Promise<void> {
    const { pods, once } = this.#parts;
    const { id, pod } = found;
    this.#begun.delete(id);
    const others = (await this.#others(found)).filter((one) => !isOnce(one) || !once.isAwaited(id));
    if (others.length === 0) return;
    if (others.some(isOnce)) await once.forget(found);
    // A platform that was killed in a promotion left it, and whoever asks would meet one that ends.
    await Promise.all([this.#lead(found), this.#parts.networks.lead(found)]);
    await Promise.all(
      others.map((one) =>
        pods.delete(placeOf(one), isOnce(one) || isLaterPod(one.metadata.name, pod) ? 0 : graceSeconds),
      ),
    );
  }

  /** From now on service and alias lead to the container's pod alone, and not to all pods of its namespace. */
  async tellApart(found: Found): Promise<void> {
    await this.#mark(found, await this.#parts.pods.of(found));
    // Also when that is written: a platform may have ended before it did the rest.
    if (!found.isKept) await this.#lead(found);
    await this.#parts.networks.lead(found);
  }

  /** Deletes what is beside a container that is removed, and waits for none of it. */
  async drop(found: Found): Promise<void> {
    this.#begun.delete(found.id);
    for (const one of await this.#others(found))
      await deleteIfThere(this.#parts.client, pathOf(placeOf(one)), { gracePeriodSeconds: 1 });
  }

  async #others(found: Found): Promise<PodView[]> {
    // It never had any.
    if (!found.isMarked) return [];
    const all = await this.#parts.pods.allOf(found.id, found.namespace);
    return all.filter(({ metadata }) => metadata.name !== found.pod);
  }

  /** The pod that runs is told by its name from the one that comes: by the namespace, and by the service. */
  async #mark(found: Found, present: PodView | undefined): Promise<void> {
    const { client } = this.#parts;
    if (present !== undefined && present.metadata.labels[labels.pod] !== found.pod) {
      const body = { metadata: { labels: { [labels.pod]: found.pod }, uid: present.metadata.uid } };
      await client.call('PATCH', pathOf(found), { body, contentType: MERGE });
    }
    if (found.isMarked) return;
    const body = { metadata: { annotations: { [POD_ANNOTATION]: found.pod } } };
    await client.call('PATCH', `/api/v1/namespaces/${found.namespace}`, { body, contentType: MERGE });
  }

  /** Writes that the successor is the container. Resolves with false when the container is another than was thought. */
  async #give(found: Found, successor: PodView, network: PrivateNetwork | undefined): Promise<boolean> {
    const { namespace, pod, spec, specText } = found;
    const own = parseJson(successor.metadata.annotations[SPEC_ANNOTATION], keptSpecView);
    const { egress: _, ...rest } = own ?? spec;
    // What may have been changed meanwhile counts for both.
    const { storageGb, egress } = spec;
    const next = { ...rest, storageGb, ...(egress === undefined ? {} : { egress }) };
    const [atPod, atSpec] = [POD_ANNOTATION, SPEC_ANNOTATION].map(atAnnotation);
    const body = [
      { op: 'test', path: atPod, value: pod },
      { op: 'test', path: atSpec, value: specText },
      { op: 'replace', path: atPod, value: successor.metadata.name },
      { op: 'replace', path: atSpec, value: JSON.stringify(next) },
      ...placeChange(found, network),
    ];
    try {
      const path = `/api/v1/namespaces/${namespace}`;
      await this.#parts.client.call('PATCH', path, { body, contentType: 'application/json-patch+json' });
      return true;
    } catch (error) {
      if (isReply(error, 422)) return false;
      throw error;
    }
  }

  /** The service leads to the pod that is the container. */
  async #lead({ id, userId, pod }: Found): Promise<void> {
    const { client, naming, settings } = this.#parts;
    const { path, body } = serviceManifest(naming, { id, userId }, settings, pod);
    await client.apply(path, body, anything);
  }

  async #mustFind(id: string): Promise<Found> {
    const found = await this.#parts.find(id);
    if (found === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
    return found;
  }
}

/** What is in the way of a second pod, and what to do. */
function forSecond(error: unknown): unknown {
  if (!(error instanceof EngineError) || !error.message.startsWith(NO_ROOM)) return error;
  const said = error.message.slice(NO_ROOM.length).replace(/\.?$/, '.');
  const what = 'No node of the cluster has room for a second pod beside the one that runs';
  const todo = 'Make room, or stop the container, change its image, and start it';
  return new EngineError('unavailable', `${what}${said} ${todo}.`, { cause: error });
}

function isOnce({ metadata }: PodView): boolean {
  return metadata.name === names.once;
}

function isGoing({ metadata }: PodView): boolean {
  return metadata.deletionTimestamp != null;
}
