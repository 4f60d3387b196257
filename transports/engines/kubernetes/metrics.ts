import { z } from 'zod';
import { errorText } from '../../../lib/errors.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { MetricsSource, NodeSample, PodSample } from '../../../proto/ports/metrics-source.ts';
import { listOf } from '../common/calls.ts';
import type { KubeAccess } from './access.ts';
import { KubeClient } from './client.ts';
import { parseJson } from './find.ts';
import { type KubeletSummary, kubeletSummary, type Used } from './kubelet-summary.ts';
import { bytesOf, millisOf, nodesOfMetricsApi, podsOfMetricsApi } from './metrics-api.ts';
import { kubeNaming, SPEC_ANNOTATION } from './naming.ts';
import { PodHistory } from './pod-history.ts';
import { keptSpecView, workloadOf } from './views.ts';
import { defaultKubeWatchTimes, type KubeWatchTimes } from './watch.ts';

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
        const at = `${namespace}/${pod?.metadata.name ?? ''}`;
        const measured: Partial<Used> = kubelets.of(pod?.spec.nodeName ?? '')?.pods.get(at) ?? {};
        const used = runs ? (podUse?.get(at) ?? measured) : undefined;
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
    const worker = async (): Promise<void> => {
      for (let name = due.pop(); name !== undefined; name = due.pop()) {
        this.calls += 1;
        const summary = await kubeletSummary(this.#client, name, { timeoutMs: ANSWER_MS, signal }).catch(
          (error: unknown) => {
            this.#log.debug({ node: name, reason: errorText(error) }, 'a node does not tell usage');
            return undefined;
          },
        );
        this.#summaries.set(name, { at: performance.now(), summary });
      }
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, due.length) }, worker));
  }
}
