import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { Semaphore } from '../../../lib/concurrency.ts';
import {
  type ContainerSpec,
  type ContainerState,
  dataGone,
  EngineError,
  ofSuccessor,
  type Workload,
} from '../../../proto/ports/engine.ts';
import type { ClusterCache, ClusterObjects } from './cache.ts';
import { deleteIfThere, getIfThere, type KubeClient } from './client.ts';
import { isReply, KubeReplyError } from './errors.ts';
import { type Found, foundOf, listAll, NamespaceFinder, parseJson } from './find.ts';
import {
  type ClusterSettings,
  claimManifest,
  environmentManifest,
  keptSpec,
  keysHash,
  namespaceManifest,
  secretManifest,
  surroundings,
} from './manifests.ts';
import {
  besides,
  KEYS_ANNOTATION,
  type KubeNaming,
  labels,
  names,
  nextPodName,
  POD_ANNOTATION,
  podNameOf,
  RUN_ANNOTATION,
  SPEC_ANNOTATION,
} from './naming.ts';
import { KubeOnce } from './once.ts';
import { PodStarter, type PodStarterParts } from './pod-start.ts';
import { type PodPlace, Pods, pathOf, placeOf } from './pods.ts';
import { KubePrivateNetworks } from './private-networks.ts';
import { KubeSuccessors } from './successors.ts';
import {
  externalAddressOf,
  hasEnded,
  type KeptSpec,
  keptSpecView,
  objectView,
  type PodView,
  podView,
  type Run,
  type ServiceView,
  serviceView,
  stateOf,
  workloadOf,
} from './views.ts';

const claimView = z.object({
  spec: z.object({ resources: z.object({ requests: z.object({ storage: z.string() }) }) }),
});
const anything = z.unknown();

/** How long namespaces may take to go, ms. */
const GONE_MS = 90_000;
/** Containers that are written at a time: the rest waits, so that those which were begun get done. */
const MOST_WRITTEN = 12;
/** One that was made is started before the next is made. */
const urgent = { isUrgent: true };

/** What containers are made with. */
export interface KubeContainersOptions {
  readonly settings?: ClusterSettings;
  /** What a watch knows of the cluster, while one stands. */
  readonly cache?: () => ClusterCache | undefined;
  readonly pullAuth?: PodStarterParts['pullAuth'];
}

/** Containers of one installation in one cluster; the calls of `Engine` with the same names (proto/ports/engine.ts). */
export class KubeContainers {
  readonly pods: Pods;
  readonly starter: PodStarter;
  readonly successors: KubeSuccessors;
  readonly once: KubeOnce;
  readonly networks: KubePrivateNetworks;
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #settings: ClusterSettings;
  readonly #cache: () => ClusterCache | undefined;
  readonly #namespaces: NamespaceFinder;
  readonly #writes = new Semaphore(MOST_WRITTEN);

  constructor(client: KubeClient, naming: KubeNaming, options: KubeContainersOptions = {}) {
    this.#client = client;
    this.#naming = naming;
    this.#settings = options.settings ?? {};
    this.#cache = () => options.cache?.();
    this.pods = new Pods(client, naming, this.#cache);
    this.#namespaces = new NamespaceFinder(client, naming, this.#cache);
    const { pullAuth } = options;
    const parts = { client, naming, settings: this.#settings, pods: this.pods, ...(pullAuth && { pullAuth }) };
    this.starter = new PodStarter(parts);
    this.networks = new KubePrivateNetworks(client, naming, this.#settings, this.#cache);
    const { starter, networks } = this;
    const look = (id: string): Promise<Found | undefined> => this.#look(id);
    this.once = new KubeOnce({ ...parts, starter, look, successors: () => this.successors });
    this.successors = new KubeSuccessors({ ...parts, starter, networks, find: (id) => this.find(id), once: this.once });
  }

  /**
   * Makes namespace, claim, secret, service and policy. What exists is adopted; a pod that is not as wanted and does
   * not run goes. `fence` as in `Engine.create`: what it waits for may take a minute.
   */
  async create(spec: ContainerSpec, fence: () => void = () => {}): Promise<void> {
    const namespace = this.#naming.namespace(spec.userId, spec.id);
    const deadline = Date.now() + GONE_MS;
    for (let wait = 100; ; wait = Math.min(1000, wait * 1.5)) {
      const written = await this.#writes.run(() => this.#write(namespace, spec, fence));
      if (written !== 'going') {
        const { pod, place, kept } = written;
        if (pod === undefined || workloadOf(pod)?.state.running !== undefined) return;
        if (pod.metadata.annotations[SPEC_ANNOTATION] === JSON.stringify(kept)) return;
        fence();
        await this.pods.delete(place);
        return;
      }
      if (Date.now() > deadline) {
        throw new EngineError('unavailable', 'What was in the container before is still being removed.');
      }
      await delay(wait);
    }
  }

  /** Resolves with the pod that is there; `going`: a namespace of that name is still being removed. */
  async #write(
    namespace: string,
    spec: ContainerSpec,
    fence: () => void,
  ): Promise<{ pod: PodView | undefined; place: PodPlace; kept: KeptSpec } | 'going'> {
    const path = `/api/v1/namespaces/${namespace}`;
    const present = await getIfThere(this.#client, path, objectView);
    const isOurs = present === undefined || this.#naming.idOf(present.metadata.labels) === spec.id;
    if (!isOurs) throw new EngineError('refused', `The namespace ${namespace} belongs to somebody else.`);
    if (present?.metadata.deletionTimestamp != null) return 'going';
    const kept = keptSpec(spec, present && foundOf(this.#naming, present)?.spec);
    fence();
    const leadsTo = present?.metadata.annotations[POD_ANNOTATION];
    const around = surroundings(this.#naming, spec, this.#settings, leadsTo).map(
      (one) => () => this.#client.apply(one.path, one.body, anything),
    );
    // The namespace says what it may reach: that must be so by then.
    const isOther = present?.metadata.annotations[SPEC_ANNOTATION] !== JSON.stringify(kept);
    if (present !== undefined && isOther) for (const apply of around) await apply();
    const made = await this.#client.apply(path, namespaceManifest(this.#naming, spec, kept), objectView);
    this.#namespaces.note(spec.id, namespace);
    if (made.metadata.deletionTimestamp != null) return 'going';
    const own = this.#naming.labelsOf(spec.userId, spec.id);
    const secret = secretManifest(namespace, own, spec.authorizedKeys);
    const writes = [
      this.#ensureClaim(namespace, spec),
      this.#client.apply(`${path}/secrets/${names.secret}`, secret, anything),
      ...around.map((apply) => apply()),
    ];
    const failed = (await Promise.allSettled(writes)).find((one) => one.status === 'rejected');
    const place = { namespace, pod: podNameOf(made.metadata.annotations) };
    if (failed === undefined) return { pod: await this.pods.of(place), place, kept };
    if (failed.reason instanceof KubeReplyError && failed.reason.isTerminating) return 'going';
    throw failed.reason;
  }

  async #ensureClaim(namespace: string, spec: ContainerSpec): Promise<void> {
    const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${names.claim}`;
    const present = await getIfThere(this.#client, path, claimView);
    if (present?.spec.resources.requests.storage === `${spec.storageGb}Gi`) return;
    // There is nothing to keep, and two pods on two nodes could not both have it.
    if (present === undefined && spec.mountPaths.length === 0) return;
    const held = spec.mountPaths.filter((one) => spec.dataPaths?.includes(one));
    if (present === undefined && held.length > 0) throw dataGone(held);
    try {
      await this.#client.apply(path, claimManifest(this.#naming, spec, this.#settings), anything);
    } catch (error) {
      // A claim that cannot grow, or is to shrink, stays as it is.
      if (present === undefined || !isReply(error, 403, 422)) throw error;
    }
  }

  /** Writes keys and settings, and starts; resolves once it runs or has ended. Rejects with what is in its way. */
  async start(
    id: string,
    {
      authorizedKeys,
      workload,
    }: { readonly authorizedKeys: readonly string[]; readonly workload?: Workload | undefined },
    renew: (found: Found) => Promise<boolean>,
  ): Promise<void> {
    const found = await this.mustFind(id);
    const { namespace } = found;
    const own = this.#naming.labelsOf(found.userId, id);
    const secrets = `/api/v1/namespaces/${namespace}/secrets`;
    const secret = secretManifest(namespace, own, authorizedKeys, workload);
    const before = await this.#writes.run(async () => {
      await this.#client.apply(`${secrets}/${names.secret}`, secret, anything);
      if (workload !== undefined) {
        const environment = environmentManifest(namespace, own, workload);
        await this.#client.apply(`${secrets}/${names.environment}`, environment, anything);
      }
      return this.pods.of(found);
    }, urgent);
    const isGoing = before !== undefined && before.metadata.deletionTimestamp != null;
    const keys = keysHash(authorizedKeys);
    if (before !== undefined && !isGoing && workloadOf(before)?.state.running !== undefined) {
      if (before.metadata.annotations[KEYS_ANNOTATION] !== keys)
        await this.#renewKeys(before.metadata, keys, () => renew(found));
      if (found.run !== 'running') await this.#note(namespace, 'running');
      return;
    }
    if (before !== undefined && (isGoing || hasEnded(before))) await this.pods.delete(found);
    const hasPullSecret = await this.starter.ensurePullSecret(found);
    const pod = await this.#writes.run(async () => {
      if (found.run !== undefined) await this.#note(namespace, null);
      return this.starter.apply(found, { prepares: true, hasPullSecret, keysHash: keys, workload });
    }, urgent);
    await this.starter.untilRunning(found, pod, { hasPullSecret, keysHash: keys, workload });
    await this.#note(namespace, 'running');
  }

  /** Writes keys into a pod that runs. Whoever comes in between knows that nothing is known of them. */
  async #renewKeys(pod: PodView['metadata'], keys: string, renew: () => Promise<boolean>): Promise<void> {
    const path = pathOf({ namespace: pod.namespace, pod: pod.name });
    await this.#annotate(path, { [KEYS_ANNOTATION]: null }, pod.uid);
    if (await renew()) await this.#annotate(path, { [KEYS_ANNOTATION]: keys }, pod.uid);
  }

  /**
   * Ends the workload as scaling to no replica would: its pod is deleted with that grace, and goes soon after the
   * kubelet says that nothing of it runs. Claim, secret, service and policy stay; how it ended stands on the namespace.
   */
  async stop(id: string, graceSeconds: number): Promise<void> {
    const found = await this.find(id);
    if (found === undefined) return;
    const before = await this.pods.of(found);
    this.once.giveUp(id);
    const [last] = await Promise.all([this.pods.delete(found, graceSeconds), this.successors.end(found, graceSeconds)]);
    if (last === undefined && found.run !== 'running') return;
    // A kubelet may take the pod away before anybody saw the code, or forget when it began.
    const { exitCode, oomKilled, startedAt, endedAt } = stateOf(id, found.spec, last, undefined);
    await this.#note(found.namespace, {
      exitCode: last !== undefined && hasEnded(last) ? exitCode : null,
      oomKilled,
      startedAt: startedAt ?? stateOf(id, found.spec, before, undefined).startedAt,
      endedAt: endedAt ?? Date.now(),
    });
  }

  /** Writes down how far a container is, where it is read when there is no pod. */
  #note(namespace: string, run: Run | null): Promise<void> {
    return this.#annotate(`/api/v1/namespaces/${namespace}`, {
      [RUN_ANNOTATION]: run === null ? null : JSON.stringify(run),
    });
  }

  /** `uid`: only of that very object. */
  async #annotate(path: string, annotations: Record<string, string | null>, uid?: string): Promise<void> {
    try {
      const body = { metadata: { annotations, ...(uid === undefined ? {} : { uid }) } };
      await this.#client.call('PATCH', path, { body, contentType: 'application/merge-patch+json' });
    } catch (error) {
      if (!isReply(error, 404)) throw error;
    }
  }

  async remove(id: string, keepData: boolean): Promise<void> {
    const found = await this.#look(id);
    if (found === undefined) return;
    const { namespace } = found;
    this.once.giveUp(id);
    await this.networks.leave(found);
    if (keepData) {
      await this.successors.end(found, 0);
      await this.pods.delete(found);
      await deleteIfThere(this.#client, `/api/v1/namespaces/${namespace}/services/${names.service}`);
      await this.#client.call('PATCH', `/api/v1/namespaces/${namespace}`, {
        body: { metadata: { labels: { [labels.state]: 'kept' } } },
        contentType: 'application/merge-patch+json',
      });
      return;
    }
    // Sooner than the namespace's own end would.
    await deleteIfThere(this.#client, pathOf(found), { gracePeriodSeconds: 1 });
    await this.successors.drop(found);
    await deleteIfThere(this.#client, `/api/v1/namespaces/${namespace}`);
  }

  async inspect(id: string): Promise<ContainerState | undefined> {
    const found = await this.find(id);
    if (found === undefined) return undefined;
    const [network, pod, service] = await Promise.all([
      ofSuccessor(id) === undefined ? this.networks.look(found) : found.network,
      this.pods.of(found),
      getIfThere(this.#client, `/api/v1/namespaces/${found.namespace}/services/${names.service}`, serviceView),
    ]);
    // What a watch does not know is looked for when all containers are compared.
    return this.#stateOf({ ...found, network }, pod, service, (place) =>
      this.#cache()?.pod(place.namespace, place.pod),
    );
  }

  /** All containers, or those of `ids`: from `known`, or by asking. */
  async list(known?: ClusterObjects, ids?: readonly string[]): Promise<ContainerState[]> {
    const wanted = ids === undefined ? undefined : new Set(ids);
    const query = { labelSelector: this.#naming.selector() };
    const of = <T>(resource: string, item: z.ZodType<T>): Promise<T[]> =>
      listAll(this.#client, `/api/v1/${resource}`, item, query);
    const { namespaces, pods, services } = known ?? {
      namespaces: await of('namespaces', objectView),
      pods: await of('pods', podView),
      services: await of('services', serviceView),
    };
    const podAt = new Map(pods.map((pod) => [pathOf(placeOf(pod)), pod]));
    const networks = this.#cache()?.networks();
    const serviceIn = new Map(services.map((service) => [service.metadata.namespace, service]));
    return namespaces
      .map((one) => foundOf(this.#naming, one))
      .filter((found): found is Found => found !== undefined && !found.isKept)
      .filter(({ id }) => wanted?.has(id) !== false)
      .map((found) => {
        const at = (place: PodPlace): PodView | undefined => podAt.get(pathOf(place));
        const network = this.networks.seen(found, networks);
        return this.#stateOf({ ...found, network }, at(found), serviceIn.get(found.namespace), at);
      })
      .filter((state) => state !== undefined);
  }

  /** The pods that are the containers, without those beside them. */
  async ownPods(known?: Pick<ClusterObjects, 'namespaces' | 'pods'>): Promise<PodView[]> {
    const query = { labelSelector: this.#naming.selector() };
    const pods = known?.pods ?? (await this.pods.list());
    const namespaces = known?.namespaces ?? (await listAll(this.#client, '/api/v1/namespaces', objectView, query));
    const own = new Set(namespaces.map(({ metadata: { name, annotations } }) => `${name}/${podNameOf(annotations)}`));
    return pods.filter(({ metadata: { namespace, name } }) => own.has(`${namespace}/${name}`));
  }

  /** The container, unless there is none, or it is on its way out, or only its data is left. */
  async find(id: string): Promise<Found | undefined> {
    const found = await this.#look(id);
    return found?.isKept === true ? undefined : found;
  }

  /** As `find`, but rejects `not_found` when there is none. */
  async mustFind(id: string): Promise<Found> {
    const found = await this.find(id);
    if (found === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
    return found;
  }

  /** As `mustFind`, of one that runs. Rejects `not_running`, too. */
  async mustRun(id: string): Promise<Found> {
    const found = await this.mustFind(id);
    const pod = await this.pods.of(found);
    if (pod === undefined || workloadOf(pod)?.state.running === undefined)
      throw new EngineError('not_running', 'The container is not running.');
    return found;
  }

  #stateOf(
    found: Found,
    pod: PodView | undefined,
    service: ServiceView | undefined,
    at: (place: PodPlace) => PodView | undefined,
  ): ContainerState | undefined {
    // It ran, and nobody here ended it: somebody removed its pod.
    if (pod === undefined && (found.run === 'running' || ofSuccessor(found.id) !== undefined)) return undefined;
    // A pod that runs may be of an earlier wish.
    const annotated = parseJson(pod?.metadata.annotations[SPEC_ANNOTATION], keptSpecView);
    const { storageGb, egress } = found.spec;
    const { egress: _, ...rest } = annotated ?? found.spec;
    const spec = { ...rest, storageGb, ...(egress === undefined ? {} : { egress }) };
    const { network } = found;
    const state = { ...stateOf(found.id, spec, pod, found.run === 'running' ? undefined : found.run), network };
    if (state.phase !== 'running') return state;
    const isBeside =
      ofSuccessor(found.id) === undefined &&
      besides(found.pod).some((pod) => at({ ...found, pod }) && !(pod === names.once && this.once.isAwaited(found.id)));
    const more = isBeside ? { hasOthers: true as const } : {};
    return { ...state, externalAddress: externalAddressOf(service), ...more };
  }

  async #look(id: string): Promise<Found | undefined> {
    const of = ofSuccessor(id);
    const namespace = await this.#namespaces.find(of ?? id);
    const found = namespace && foundOf(this.#naming, namespace);
    if (of === undefined || found === undefined) return found;
    // What is known of the container is not of its successor, to which its alias does not lead.
    const network = found.network && { ...found.network, alias: null };
    return { ...found, id, pod: nextPodName(found.pod), run: undefined, network };
  }
}
