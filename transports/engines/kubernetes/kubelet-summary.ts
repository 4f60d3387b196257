import { z } from 'zod';
import { listOf } from '../common/calls.ts';
import type { KubeClient } from './client.ts';

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
  pods: listOf(
    z.object({
      podRef: z.object({ namespace: z.string(), name: z.string() }),
      containers: listOf(z.object({ cpu: podCpu, memory, rootfs: z.object({ usedBytes: number }).prefault({}) })),
      volume: listOf(z.object({ name: z.string(), usedBytes: number })),
    }),
  ),
});

/** What something uses. CPU in thousandths of a core, the rest in bytes. */
export interface Used {
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

/** What a kubelet measured of its node, and of its pods by `namespace/name`; without those not measured yet. */
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
  for (const { podRef, containers: own, volume } of said.pods) {
    const rates = own.map((one) => one.cpu.usageNanoCores).filter((rate) => rate !== undefined);
    // Not measured yet.
    if (rates.length < own.length || own.length === 0) continue;
    // Volumes that live in memory or come from the API are no disk.
    const data = volume.filter(({ name }) => name === 'data').map(({ usedBytes }) => usedBytes);
    pods.set(`${podRef.namespace}/${podRef.name}`, {
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
