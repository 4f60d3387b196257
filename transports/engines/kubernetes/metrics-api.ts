import { z } from 'zod';
import { unlessReply } from '../common/calls.ts';
import type { KubeClient } from './client.ts';
import { listOf } from './views.ts';

const number = z.number().default(0);
const cpu = z.object({ usageNanoCores: number }).prefault({});
/** A kubelet that has seen a container once only knows no rate of it. */
const podCpu = z.object({ usageNanoCores: z.number().optional() }).prefault({});
const memory = z.object({ workingSetBytes: number }).prefault({});
/** What a kubelet says of its node and pods (stats/v1alpha1). */
const summary = z.object({
  node: z
    .object({
      cpu,
      memory,
      fs: z.object({ usedBytes: number, capacityBytes: number }).prefault({}),
    })
    .prefault({}),
  pods: z
    .array(
      z.object({
        podRef: z.object({ namespace: z.string() }),
        containers: z
          .array(z.object({ cpu: podCpu, memory, rootfs: z.object({ usedBytes: number }).prefault({}) }))
          .nullish(),
        volume: z.array(z.object({ name: z.string(), usedBytes: number })).nullish(),
      }),
    )
    .nullish(),
});

/** What something uses. CPU in thousandths of a core, the rest in bytes. */
export interface Used {
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

/** What a kubelet measured of its node, and of its pods by namespace; without those not measured yet. */
export interface KubeletSummary {
  readonly node: Used & { readonly diskCapacityBytes: number };
  readonly pods: ReadonlyMap<string, Used>;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
const millis = (nanoCores: number): number => Math.round(nanoCores / 1e6);

/** Asks a node's kubelet through the API server (needs `get` on `nodes/proxy`). Rejects with EngineError. */
export async function kubeletSummary(
  client: KubeClient,
  node: string,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Promise<KubeletSummary> {
  const path = `/api/v1/nodes/${encodeURIComponent(node)}/proxy/stats/summary`;
  const said = await client.json('GET', path, summary, options);
  const pods = new Map<string, Used>();
  for (const { podRef, containers, volume } of said.pods ?? []) {
    const own = containers ?? [];
    const rates = own.map((one) => one.cpu.usageNanoCores).filter((rate) => rate !== undefined);
    // Not measured yet.
    if (rates.length < own.length || own.length === 0) continue;
    // Volumes that live in memory or come from the API are no disk.
    const data = (volume ?? []).filter(({ name }) => name === 'data').map(({ usedBytes }) => usedBytes);
    pods.set(podRef.namespace, {
      cpuMillis: millis(sum(rates)),
      memoryBytes: sum(own.map((one) => one.memory.workingSetBytes)),
      diskBytes: sum([...own.map((one) => one.rootfs.usedBytes), ...data]),
    });
  }
  return {
    node: {
      cpuMillis: millis(said.node.cpu.usageNanoCores),
      memoryBytes: said.node.memory.workingSetBytes,
      diskBytes: said.node.fs.usedBytes,
      diskCapacityBytes: said.node.fs.capacityBytes,
    },
    pods,
  };
}

/** Units of quantities (`12Ki`, `250m`, `1500000n`). */
const units: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

/** The number a quantity stands for; 0 when it is none. */
function numberOf(quantity: string): number {
  const [, number = '', unit = ''] = /^([0-9.]+(?:e[0-9]+)?)([A-Za-z]*)$/.exec(quantity) ?? [];
  const value = Number(number) * (units[unit] ?? Number.NaN);
  return Number.isFinite(value) ? value : 0;
}

/** Whole bytes of a quantity of memory or disk. */
export function bytesOf(quantity: string): number {
  return Math.round(numberOf(quantity));
}

/** Thousandths of a core of a quantity of CPU. */
export function millisOf(quantity: string): number {
  return Math.round(numberOf(quantity) * 1000);
}

const usage = z.object({ cpu: z.string().default('0'), memory: z.string().default('0') });
const podMetrics = z.object({
  items: listOf(
    z.object({
      metadata: z.object({ namespace: z.string() }),
      containers: z.array(z.object({ usage })).default([]),
    }),
  ),
});
const nodeMetrics = z.object({ items: listOf(z.object({ metadata: z.object({ name: z.string() }), usage })) });

/** CPU and memory, by namespace of pods and by name of nodes. Disk is not known there. */
type MetricsAnswer = ReadonlyMap<string, Omit<Used, 'diskBytes'>>;

const ROOT = '/apis/metrics.k8s.io/v1beta1';

interface AskedMetrics {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** metrics.k8s.io on the pods of a selector; undefined where it is not served. Rejects with EngineError otherwise. */
export async function podsOfMetricsApi(
  client: KubeClient,
  selector: string,
  asked: AskedMetrics,
): Promise<MetricsAnswer | undefined> {
  const query = { labelSelector: selector };
  const found = await orAbsent(client.json('GET', `${ROOT}/pods`, podMetrics, { ...asked, query }));
  return (
    found &&
    new Map(
      found.items.map(({ metadata, containers }) => [
        metadata.namespace,
        {
          cpuMillis: sum(containers.map((one) => millisOf(one.usage.cpu))),
          memoryBytes: sum(containers.map((one) => bytesOf(one.usage.memory))),
        },
      ]),
    )
  );
}

/** As `podsOfMetricsApi`, of all nodes. */
export async function nodesOfMetricsApi(client: KubeClient, asked: AskedMetrics): Promise<MetricsAnswer | undefined> {
  const found = await orAbsent(client.json('GET', `${ROOT}/nodes`, nodeMetrics, asked));
  const used = ({ cpu, memory }: z.output<typeof usage>) => ({
    cpuMillis: millisOf(cpu),
    memoryBytes: bytesOf(memory),
  });
  return found && new Map(found.items.map(({ metadata, usage }) => [metadata.name, used(usage)]));
}

/** 404: nobody registered it. 403: it may not be asked. 503: who serves it is away. */
function orAbsent<T>(answer: Promise<T>): Promise<T | undefined> {
  return unlessReply(answer, 403, 404, 503);
}
