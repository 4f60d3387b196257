import { setMaxListeners } from 'node:events';
import { z } from 'zod';
import { errorText } from '../../../../lib/errors.ts';
import type { ContainerUsage } from '../../../../proto/ports/engine.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import { listOf } from '../../common/calls.ts';
import { type SampleTimes, UsageSamples } from '../../common/usage-samples.ts';
import { type DockerClient, isReply } from '../api/client.ts';
import { foundIn, listedContainer } from '../container-view.ts';
import type { Containers } from '../containers.ts';
import { labels, type Naming } from '../naming.ts';

const stats = z.object({
  memory_stats: z
    .object({ usage: z.number().default(0), stats: z.record(z.string(), z.number()).default({}) })
    .default({ usage: 0, stats: {} }),
});

/** Memory a container holds without the file cache it would give back, as `docker stats` counts (cgroup v1, v2). */
export function memoryInUse(
  usage: number,
  details: { readonly total_inactive_file?: number | undefined; readonly inactive_file?: number | undefined },
): number {
  const cache = details.total_inactive_file ?? details.inactive_file ?? 0;
  return cache < usage ? usage - cache : usage;
}

/** Times of the sampling, in milliseconds. */
export interface UsageTimes extends Omit<SampleTimes, 'everyMs'> {
  readonly memoryMs: number;
  /** Adding up what is on disk is expensive for Docker. */
  readonly diskMs: number;
}

/** Used unless told otherwise. */
export const defaultUsageTimes: UsageTimes = { memoryMs: 5000, diskMs: 60_000, idleMs: 60_000, forgetMs: 3_600_000 };

/** Containers sampled at the same time: Docker takes a second to answer each. */
const SAMPLES_AT_ONCE = 16;

/** Samples the containers somebody asks about. */
export class UsageSampler extends UsageSamples {
  readonly #client: DockerClient;
  readonly #containers: Pick<Containers, 'find'>;
  readonly #naming: Naming;
  readonly #log: Log;
  readonly #times: UsageTimes;
  #diskAt = Number.NEGATIVE_INFINITY;

  constructor(client: DockerClient, containers: Pick<Containers, 'find'>, naming: Naming, log: Log, times: UsageTimes) {
    super({ ...times, everyMs: times.memoryMs });
    this.#client = client;
    this.#containers = containers;
    this.#naming = naming;
    this.#log = log;
    this.#times = times;
    // Each call in flight hears it, and lets go of it when it ends.
    setMaxListeners(SAMPLES_AT_ONCE + 1, this.stop.signal);
  }

  override usage(id: string): ContainerUsage {
    const { memoryMs, diskMs } = this.#times;
    if (!this.samples.has(id)) this.#diskAt = Math.min(this.#diskAt, performance.now() - diskMs + memoryMs);
    return super.usage(id);
  }

  protected async round(asked: string[]): Promise<void> {
    if (asked.length === 0) return;
    const now = performance.now();
    const disk = now - this.#diskAt >= this.#times.diskMs ? this.#sampleDisk(now) : Promise.resolve();
    const walk = async (): Promise<void> => {
      for (let id = asked.pop(); id !== undefined && !this.stop.signal.aborted; id = asked.pop())
        await this.#sampleMemory(id);
    };
    await Promise.all([disk, ...Array.from({ length: Math.min(SAMPLES_AT_ONCE, asked.length) }, walk)]);
  }

  async #sampleMemory(id: string): Promise<void> {
    const sample = this.samples.get(id);
    if (sample === undefined) return;
    try {
      const view = await this.#containers.find(id);
      if (view?.State.Running !== true) {
        sample.memoryBytes = 0;
        return;
      }
      const { memory_stats } = await this.#client.json('GET', `/containers/${view.Id}/stats`, stats, {
        query: { stream: false, 'one-shot': true },
        signal: this.stop.signal,
      });
      sample.memoryBytes = memoryInUse(memory_stats.usage, memory_stats.stats);
    } catch (error) {
      this.#complain(error, 'cannot sample the memory of a container');
    }
  }

  async #sampleDisk(now: number): Promise<void> {
    this.#diskAt = now;
    try {
      const sums = await diskUsageOf(this.#client, this.#naming, this.stop.signal);
      for (const [id, sample] of this.samples) sample.storageBytes = sums.get(id) ?? 0;
    } catch (error) {
      // 409: somebody else's count is under way; the next round tries again.
      if (!isReply(error, 409)) this.#complain(error, 'cannot add up what containers hold on disk');
    }
  }

  #complain(error: unknown, message: string): void {
    if (!this.stop.signal.aborted) this.#log.debug({ reason: errorText(error) }, message);
  }
}

const labelled = z.record(z.string(), z.string()).nullable().default(null);
const usedByContainers = listOf(listedContainer.extend({ SizeRw: z.number().default(0) }));
const usedByVolumes = listOf(z.object({ Labels: labelled, UsageData: z.object({ Size: z.number() }).nullish() }));

/** Lists until API 1.52, sums that have the lists as `Items` from then on. */
const diskUsage = z
  .object({
    Containers: usedByContainers,
    Volumes: usedByVolumes,
    ContainersUsage: z.object({ Items: usedByContainers }).nullish(),
    VolumesUsage: z.object({ Items: usedByVolumes }).nullish(),
  })
  .transform(({ Containers, Volumes, ContainersUsage, VolumesUsage }) => ({
    Containers: ContainersUsage?.Items ?? Containers,
    Volumes: VolumesUsage?.Items ?? Volumes,
  }));

/**
 * Bytes that each container of the installation wrote, by platform id: its mount paths and its own layer. Expensive for
 * Docker, which answers 409 while it counts for somebody else.
 */
export async function diskUsageOf(
  client: DockerClient,
  naming: Naming,
  signal: AbortSignal,
): Promise<Map<string, number>> {
  const disk = await client.json('GET', '/system/df', diskUsage, {
    // Engines before API 1.42 do not know the types, and count images too; from 1.52 on, lists are to be asked for.
    query: { type: ['container', 'volume'], verbose: true },
    timeoutMs: 120_000,
    maxBytes: 64 * 1024 * 1024,
    signal,
  });
  const sums = new Map<string, number>();
  const add = (id: string | undefined, bytes: number): void => {
    // Docker says -1 for "not known".
    if (id !== undefined && bytes > 0) sums.set(id, (sums.get(id) ?? 0) + bytes);
  };
  for (const container of disk.Containers) {
    const id = naming.containerOf(foundIn(container));
    add(id, container.SizeRw);
    add(id, Number(container.Labels?.[labels.carried] ?? 0));
  }
  for (const volume of disk.Volumes) add(naming.idOf(volume.Labels), volume.UsageData?.Size ?? 0);
  return sums;
}
