import { setMaxListeners } from 'node:events';
import { z } from 'zod';
import { errorText } from '../../../../lib/error-text.ts';
import type { ContainerUsage } from '../../../../proto/ports/engine.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import type { DockerClient } from '../api/client.ts';
import { isReply } from '../api/errors.ts';
import type { Containers } from '../containers.ts';
import type { Naming } from '../naming.ts';
import { diskUsageOf } from './disk-usage.ts';

const stats = z.object({
  memory_stats: z
    .object({ usage: z.number().default(0), stats: z.record(z.string(), z.number()).default({}) })
    .default({ usage: 0, stats: {} }),
});

/**
 * Memory a container holds without the file cache it would give back, as `docker stats` counts it (cgroup v1 and v2).
 */
export function memoryInUse(
  usage: number,
  details: { readonly total_inactive_file?: number | undefined; readonly inactive_file?: number | undefined },
): number {
  const cache = details.total_inactive_file ?? details.inactive_file ?? 0;
  return cache < usage ? usage - cache : usage;
}

/** Times of the sampling, in milliseconds. */
export interface UsageTimes {
  readonly memoryMs: number;
  /** Adding up what is on disk is expensive for Docker. */
  readonly diskMs: number;
  /** A container nobody asked about for so long is not sampled; what was measured stays known. */
  readonly idleMs: number;
  /** After so long it is forgotten: it may have been deleted through another process. */
  readonly forgetMs: number;
}

/** Used unless told otherwise. */
export const defaultUsageTimes: UsageTimes = { memoryMs: 5000, diskMs: 60_000, idleMs: 60_000, forgetMs: 3_600_000 };

/** Containers sampled at the same time: Docker takes a second to answer each. */
const SAMPLES_AT_ONCE = 16;

interface Sample {
  askedAt: number;
  memoryBytes: number;
  storageBytes: number;
}

/** Samples the containers somebody asks about. Runs no timer while nobody does. */
export class UsageSampler {
  readonly #client: DockerClient;
  readonly #containers: Pick<Containers, 'find'>;
  readonly #naming: Naming;
  readonly #log: Log;
  readonly #times: UsageTimes;
  readonly #samples = new Map<string, Sample>();
  readonly #stop = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<void> = Promise.resolve();
  #scheduled = false;
  #diskAt = Number.NEGATIVE_INFINITY;

  constructor(client: DockerClient, containers: Pick<Containers, 'find'>, naming: Naming, log: Log, times: UsageTimes) {
    this.#client = client;
    this.#containers = containers;
    this.#naming = naming;
    this.#log = log;
    this.#times = times;
    // Each call in flight hears it, and lets go of it when it ends.
    setMaxListeners(SAMPLES_AT_ONCE + 1, this.#stop.signal);
  }

  /** The last sample; zeros at first. Asking keeps the sampling of this container going. */
  usage(id: string): ContainerUsage {
    const known = this.#samples.get(id);
    const sample = known ?? { askedAt: 0, memoryBytes: 0, storageBytes: 0 };
    sample.askedAt = performance.now();
    if (known === undefined) {
      this.#samples.set(id, sample);
      this.#diskAt = Math.min(this.#diskAt, performance.now() - this.#times.diskMs + this.#times.memoryMs);
    }
    this.#schedule(0);
    return { memoryBytes: sample.memoryBytes, storageBytes: sample.storageBytes };
  }

  /** A container is gone: nothing is known of it any more. */
  forget(id: string): void {
    this.#samples.delete(id);
  }

  /** Containers that something is known of. */
  get size(): number {
    return this.#samples.size;
  }

  /** Ends the sampling; resolves once no call of it runs. */
  close(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#timer);
    return this.#running;
  }

  /** The containers somebody asked about lately. */
  #asked(now: number): string[] {
    return [...this.#samples].filter(([, { askedAt }]) => now - askedAt <= this.#times.idleMs).map(([id]) => id);
  }

  #schedule(afterMs: number): void {
    if (this.#scheduled || this.#stop.signal.aborted) return;
    this.#scheduled = true;
    this.#timer = setTimeout(() => {
      this.#running = this.#round().finally(() => {
        this.#scheduled = false;
        if (this.#asked(performance.now()).length > 0) this.#schedule(this.#times.memoryMs);
      });
    }, afterMs);
    this.#timer.unref();
  }

  async #round(): Promise<void> {
    const now = performance.now();
    for (const [id, { askedAt }] of this.#samples) if (now - askedAt > this.#times.forgetMs) this.#samples.delete(id);
    const ids = this.#asked(now);
    if (ids.length === 0) return;
    const disk = now - this.#diskAt >= this.#times.diskMs ? this.#sampleDisk(now) : Promise.resolve();
    const walk = async (): Promise<void> => {
      for (let id = ids.pop(); id !== undefined && !this.#stop.signal.aborted; id = ids.pop())
        await this.#sampleMemory(id);
    };
    await Promise.all([disk, ...Array.from({ length: Math.min(SAMPLES_AT_ONCE, ids.length) }, walk)]);
  }

  async #sampleMemory(id: string): Promise<void> {
    const sample = this.#samples.get(id);
    if (sample === undefined) return;
    try {
      const view = await this.#containers.find(id);
      if (view?.State.Running !== true) {
        sample.memoryBytes = 0;
        return;
      }
      const { memory_stats } = await this.#client.json('GET', `/containers/${view.Id}/stats`, stats, {
        query: { stream: false, 'one-shot': true },
        signal: this.#stop.signal,
      });
      sample.memoryBytes = memoryInUse(memory_stats.usage, memory_stats.stats);
    } catch (error) {
      this.#complain(error, 'cannot sample the memory of a container');
    }
  }

  async #sampleDisk(now: number): Promise<void> {
    this.#diskAt = now;
    try {
      const sums = await diskUsageOf(this.#client, this.#naming, this.#stop.signal);
      for (const [id, sample] of this.#samples) sample.storageBytes = sums.get(id) ?? 0;
    } catch (error) {
      // 409: somebody else's count is under way; the next round tries again.
      if (!isReply(error, 409)) this.#complain(error, 'cannot add up what containers hold on disk');
    }
  }

  #complain(error: unknown, message: string): void {
    if (!this.#stop.signal.aborted) this.#log.debug({ reason: errorText(error) }, message);
  }
}
