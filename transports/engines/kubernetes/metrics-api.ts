import { z } from 'zod';
import { listOf } from '../common/calls.ts';
import type { KubeClient } from './client.ts';
import { isReply } from './errors.ts';
import type { Used } from './kubelet-summary.ts';

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
      metadata: z.object({ namespace: z.string(), name: z.string() }),
      containers: z.array(z.object({ usage })).default([]),
    }),
  ),
});
const nodeMetrics = z.object({ items: listOf(z.object({ metadata: z.object({ name: z.string() }), usage })) });

/** CPU and memory, of pods by `namespace/name` and of nodes by name. Disk is not known there. */
type MetricsAnswer = ReadonlyMap<string, Omit<Used, 'diskBytes'>>;

const ROOT = '/apis/metrics.k8s.io/v1beta1';

interface AskedMetrics {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** metrics.k8s.io on the pods of a selector; undefined where it is not served. Rejects with EngineError otherwise. */
export function podsOfMetricsApi(
  client: KubeClient,
  selector: string,
  asked: AskedMetrics,
): Promise<MetricsAnswer | undefined> {
  return orAbsent(async () => {
    const query = { labelSelector: selector };
    const { items } = await client.json('GET', `${ROOT}/pods`, podMetrics, { ...asked, query });
    return new Map(
      items.map(({ metadata, containers }) => [
        `${metadata.namespace}/${metadata.name}`,
        {
          cpuMillis: containers.reduce((total, one) => total + millisOf(one.usage.cpu), 0),
          memoryBytes: containers.reduce((total, one) => total + bytesOf(one.usage.memory), 0),
        },
      ]),
    );
  });
}

/** As `podsOfMetricsApi`, of all nodes. */
export function nodesOfMetricsApi(client: KubeClient, asked: AskedMetrics): Promise<MetricsAnswer | undefined> {
  return orAbsent(async () => {
    const { items } = await client.json('GET', `${ROOT}/nodes`, nodeMetrics, asked);
    return new Map(
      items.map(({ metadata, usage }) => [
        metadata.name,
        { cpuMillis: millisOf(usage.cpu), memoryBytes: bytesOf(usage.memory) },
      ]),
    );
  });
}

/** 404: nobody registered it. 403: it may not be asked. 503: who serves it is away. */
async function orAbsent(ask: () => Promise<MetricsAnswer>): Promise<MetricsAnswer | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (isReply(error, 403, 404, 503)) return undefined;
    throw error;
  }
}
