import { z } from 'zod';
import { eachOf } from '../../../lib/concurrency.ts';
import { errorText } from '../../../lib/errors.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { MetricsSource, NodeSample, PodSample } from '../../../proto/ports/metrics-source.ts';
import { type KubeAccess, KubeClient } from './client.ts';
import { parseJson } from './find.ts';
import {
  bytesOf,
  type KubeletSummary,
  kubeletSummary,
  millisOf,
  nodesOfMetricsApi,
  podsOfMetricsApi,
  type Used,
} from './metrics-api.ts';
import { type KubeNaming, kubeNaming, labels, SPEC_ANNOTATION } from './naming.ts';
import { hasEnded, keptSpecView, listOf, type PodView, podView, workloadOf } from './views.ts';
import { defaultKubeWatchTimes, type KubeWatchTimes, watchResource } from './watch.ts';

/** What the metrics of a cluster are made from. */
interface KubernetesMetricsOptions {
  readonly access: KubeAccess;
  readonly installation: string;
  readonly log: Log;
  readonly watchTimes?: KubeWatchTimes;
  /** Time after which a metrics API that was not there is asked for again. Default five minutes. */
  readonly absentMs?: number;
}

/** Between two looks at disks, which every kubelet is asked about alone. */
const DISK_MS = 60_000;

const quantities = z.record(z.string(), z.string()).default({});
const nodeList = z.object({
  items: listOf(
    z.object({
      metadata: z.object({ name: z.string() }),
      status: z
        .object({
          capacity: quantities,
          conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
        })
        .prefault({}),
    }),
  ),
});

const ANSWER_MS = 4000;
/** Kubelets that are asked at the same time. */
const AT_ONCE = 8;

/**
 * The nodes of a cluster and the containers of one installation. CPU and memory come from metrics.k8s.io where it is
 * served, else from the kubelets, who alone know of disks. Where neither may be asked, numbers are zero and the node's
 * condition `MetricsAvailable` is `False`.
 */
export function kubernetesMetrics(options: KubernetesMetricsOptions): MetricsSource {
  const { log } = options;
  const naming = kubeNaming(options.installation);
  const client = new KubeClient(options.access);
  const history = new PodHistory(client, naming, log, options.watchTimes ?? defaultKubeWatchTimes);
  const kubelets = new Kubelets(client, log);
  let absentUntil = 0;
  let calls = 0;

  return {
    name: 'kubernetes',
    measuresNodes: true,
    get calls() {
      return calls + history.calls + kubelets.calls;
    },
    async read(signal) {
      await history.ready(signal);
      const asked = { signal, timeoutMs: ANSWER_MS };
      const isServed = performance.now() >= absentUntil;
      calls += isServed ? 3 : 1;
      const [{ items: nodes }, podUse, nodeUse] = await Promise.all([
        client.json('GET', '/api/v1/nodes', nodeList, { ...asked, query: { resourceVersion: 0 } }),
        isServed ? podsOfMetricsApi(client, naming.selector(), asked) : undefined,
        isServed ? nodesOfMetricsApi(client, asked) : undefined,
      ]);
      if (isServed && podUse === undefined) absentUntil = performance.now() + (options.absentMs ?? 300_000);
      const names = nodes.map(({ metadata }) => metadata.name);
      await kubelets.ask(names, podUse === undefined ? 0 : DISK_MS, signal);

      const nodeSamples = nodes.map(({ metadata: { name }, status }): NodeSample => {
        const summary = kubelets.of(name);
        const used = nodeUse?.get(name) ?? summary?.node;
        const isMeasured = used !== undefined ? 'True' : 'False';
        return {
          name,
          cpuMillis: used?.cpuMillis ?? 0,
          cpuCapacityMillis: millisOf(status.capacity.cpu ?? '0'),
          memoryBytes: used?.memoryBytes ?? 0,
          memoryCapacityBytes: bytesOf(status.capacity.memory ?? '0'),
          diskBytes: summary?.node.diskBytes ?? 0,
          diskCapacityBytes: summary?.node.diskCapacityBytes || bytesOf(status.capacity['ephemeral-storage'] ?? '0'),
          conditions: [
            ...status.conditions.map((one) => ({ type: one.type, status: one.status })),
            { type: 'MetricsAvailable', status: isMeasured },
          ],
        };
      });
      const pods = history.all().flatMap((life): PodSample[] => {
        const { id, userId, namespace, pod } = life;
        const runs = pod !== undefined && workloadOf(pod)?.state.running !== undefined;
        if (!runs && !life.hasCrashed) return [];
        const measured: Partial<Used> = kubelets.of(pod?.spec.nodeName ?? '')?.pods.get(namespace) ?? {};
        const used = runs ? (podUse?.get(namespace) ?? measured) : undefined;
        // The source answers, but not of this one yet: it comes with its first real numbers, unless there is a crash to
        // tell of.
        const isSource = podUse !== undefined || kubelets.of(pod?.spec.nodeName ?? '') !== undefined;
        if (runs && used?.cpuMillis === undefined && isSource && life.crashedAt.length === 0) return [];
        const wanted = parseJson(pod?.metadata.annotations[SPEC_ANNOTATION], keptSpecView);
        return [
          {
            name: id,
            namespace,
            node: pod?.spec.nodeName ?? '',
            userId,
            containerId: id,
            cpuMillis: used?.cpuMillis ?? 0,
            cpuCapacityMillis: Math.round((wanted?.cpus ?? 0) * 1000),
            memoryBytes: used?.memoryBytes ?? 0,
            memoryCapacityBytes: (wanted?.memoryMb ?? 0) * 2 ** 20,
            diskBytes: measured.diskBytes ?? 0,
            restarts: life.restarts,
            crashedAt: life.crashedAt,
            oomKills: life.oomKills,
            ...(life.oomAt === undefined ? {} : { oomAt: life.oomAt }),
          },
        ];
      });
      return { nodes: nodeSamples, pods };
    },
    async close() {
      client.close();
      await history.close();
    },
  };
}

/** What each kubelet said last. */
class Kubelets {
  readonly #client: KubeClient;
  readonly #log: Log;
  #summaries = new Map<string, { readonly at: number; readonly summary: KubeletSummary | undefined }>();
  calls = 0;

  constructor(client: KubeClient, log: Log) {
    this.#client = client;
    this.#log = log;
  }

  of(node: string): KubeletSummary | undefined {
    return this.#summaries.get(node)?.summary;
  }

  /** Asks those with answers older than `maxAgeMs`. One that does not answer is unknown, and holds up no other. */
  async ask(nodes: readonly string[], maxAgeMs: number, signal: AbortSignal): Promise<void> {
    for (const name of this.#summaries.keys()) if (!nodes.includes(name)) this.#summaries.delete(name);
    const due = nodes.filter(
      (name) => performance.now() - (this.#summaries.get(name)?.at ?? Number.NEGATIVE_INFINITY) >= maxAgeMs,
    );
    await eachOf(due, AT_ONCE, async (name) => {
      this.calls += 1;
      const asked = kubeletSummary(this.#client, name, { timeoutMs: ANSWER_MS, signal });
      const summary = await asked.catch((error: unknown) => {
        this.#log.debug({ node: name, reason: errorText(error) }, 'a node does not tell usage');
        return undefined;
      });
      this.#summaries.set(name, { at: performance.now(), summary });
    });
  }
}

/** A container's pod as it is now, and what happened to the container since somebody watches. */
interface PodLife {
  readonly id: string;
  readonly userId: string;
  readonly namespace: string;
  /** Undefined while there is none. */
  pod: PodView | undefined;
  restarts: number;
  /** Ends that nobody asked for, Unix ms: the last few. */
  crashedAt: readonly number[];
  oomKills: number;
  oomAt: number | undefined;
  /** Of the last pod. */
  uid: string;
  hasCrashed: boolean;
  isCounted: boolean;
}

const REMEMBERED_CRASHES = 10;
/** A container that crashed and is not made anew was deleted. */
const FORGOTTEN_AFTER_MS = 15 * 60_000;

/** The pods of one installation, kept by one watch: a question about all of them costs the API server nothing. */
class PodHistory {
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #log: Log;
  readonly #times: KubeWatchTimes;
  readonly #lives = new Map<string, PodLife>();
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #first: Promise<void> | undefined;
  #stands = false;
  #problem: string | undefined;
  calls = 0;

  constructor(client: KubeClient, naming: KubeNaming, log: Log, times: KubeWatchTimes) {
    this.#client = client;
    this.#naming = naming;
    this.#log = log;
    this.#times = times;
  }

  /** Begins to watch; resolves once the pods are known. Rejects with what is wrong when `signal` aborts before. */
  async ready(signal: AbortSignal): Promise<void> {
    this.#first ??= new Promise((resolve) => {
      this.#running = watchResource(this.#client, {
        path: '/api/v1/pods',
        selector: this.#naming.selector(),
        log: this.#log,
        times: this.#times,
        signal: this.#stop.signal,
        listed: (items) => this.#all(items),
        sees: () => {
          this.#stands = true;
          resolve();
        },
        changed: (type, { object }) => this.#one(object, type === 'DELETED'),
        lost: (reason) => {
          this.#problem = reason;
        },
        onCall: () => {
          this.calls += 1;
        },
      });
    });
    if (this.#stands) return;
    const ended = AbortSignal.any([signal, this.#stop.signal]);
    const problem = (): Error => new Error(this.#problem ?? 'the pods are not known yet', { cause: ended.reason });
    if (ended.aborted) throw problem();
    await Promise.race([
      this.#first,
      new Promise((_, reject) => ended.addEventListener('abort', () => reject(problem()), { once: true })),
    ]);
  }

  /** All that have a pod, and those that crashed and have none at the moment. */
  all(): PodLife[] {
    const before = Date.now() - FORGOTTEN_AFTER_MS;
    for (const [id, life] of this.#lives) {
      if (life.pod === undefined && (life.crashedAt.at(-1) ?? 0) < before) this.#lives.delete(id);
    }
    return [...this.#lives.values()];
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  #all(items: readonly unknown[]): void {
    const present = new Set<string>();
    for (const item of items) {
      const id = this.#one(item, false);
      if (id !== undefined) present.add(id);
    }
    for (const [id, life] of this.#lives) if (!present.has(id)) this.#gone(id, life);
  }

  /** A pod that is there, or was. Returns whose it is. */
  #one(object: unknown, isGone: boolean): string | undefined {
    const parsed = podView.safeParse(object);
    const id = parsed.success ? this.#naming.idOf(parsed.data.metadata.labels) : undefined;
    if (!parsed.success || id === undefined) {
      this.#log.debug({ reason: errorText(parsed.error) }, 'a pod that cannot be read');
      return undefined;
    }
    const pod = parsed.data;
    const life = this.#lives.get(id) ?? this.#born(id, pod);
    if (life.uid !== pod.metadata.uid) {
      if (isGone) return id;
      if (life.hasCrashed) life.restarts += 1;
      life.hasCrashed = false;
      life.isCounted = false;
      life.uid = pod.metadata.uid;
    }
    life.pod = pod;
    this.#count(life, pod);
    if (isGone) this.#gone(id, life);
    return id;
  }

  #born(id: string, pod: PodView): PodLife {
    const life: PodLife = {
      id,
      userId: pod.metadata.labels[labels.user] ?? '',
      namespace: pod.metadata.namespace,
      pod: undefined,
      uid: pod.metadata.uid,
      isCounted: false,
      hasCrashed: false,
      restarts: 0,
      crashedAt: [],
      oomKills: 0,
      oomAt: undefined,
    };
    this.#lives.set(id, life);
    return life;
  }

  /** An end is a crash when nobody had deleted the pod before. */
  #count(life: PodLife, pod: PodView): void {
    if (!hasEnded(pod) || pod.metadata.deletionTimestamp != null || life.isCounted) return;
    life.isCounted = true;
    life.hasCrashed = true;
    const over = workloadOf(pod)?.state.terminated;
    const at = Date.parse(over?.finishedAt ?? '');
    const when = Number.isFinite(at) ? at : Date.now();
    life.crashedAt = [...life.crashedAt, when].slice(-REMEMBERED_CRASHES);
    if (over?.reason !== 'OOMKilled') return;
    life.oomKills += 1;
    life.oomAt = when;
  }

  /** What crashed is made anew soon, and then its crashes count. */
  #gone(id: string, life: PodLife): void {
    if (life.hasCrashed) life.pod = undefined;
    else this.#lives.delete(id);
  }
}
