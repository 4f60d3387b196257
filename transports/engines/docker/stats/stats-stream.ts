import { z } from 'zod';
import { jsonOf } from '../../../../lib/input.ts';
import type { PodSample } from '../../../../proto/ports/metrics-source.ts';
import type { DockerClient } from '../api/client.ts';
import { memoryInUse } from './usage.ts';

const cpu = z.object({ cpu_usage: z.object({ total_usage: z.number().default(0) }).default({ total_usage: 0 }) });
const line = z.object({
  read: z.string(),
  preread: z.string().default(''),
  cpu_stats: cpu,
  precpu_stats: cpu.optional(),
  memory_stats: z
    .object({
      usage: z.number().default(0),
      limit: z.number().default(0),
      // Of some forty: reading them all would cost more than the rest of the line.
      stats: z.object({ total_inactive_file: z.number().optional(), inactive_file: z.number().optional() }).default({}),
    })
    .default({ usage: 0, limit: 0, stats: {} }),
});

/** CPU time used up to a moment, both in ns. */
interface CpuMark {
  readonly usedNs: number;
  readonly atNs: number;
}

/** What a line of `GET /containers/{id}/stats` says. */
interface StatsLine {
  readonly cpu: CpuMark;
  /** The line before it; undefined in the first. */
  readonly before: CpuMark | undefined;
  readonly memoryBytes: number;
  readonly memoryLimitBytes: number;
}

/** Reads one; undefined when it is none. */
export function parseStats(text: string): StatsLine | undefined {
  const parsed = line.safeParse(jsonOf(text));
  if (!parsed.success) return undefined;
  const { read, preread, cpu_stats, precpu_stats, memory_stats } = parsed.data;
  const [atNs, beforeNs] = [nanoseconds(read), nanoseconds(preread)];
  // The engine stamps a container that has just ended with the year 1.
  if (atNs === undefined) return undefined;
  const before =
    beforeNs === undefined || precpu_stats === undefined || precpu_stats.cpu_usage.total_usage === 0
      ? undefined
      : { usedNs: precpu_stats.cpu_usage.total_usage, atNs: beforeNs };
  return {
    cpu: { usedNs: cpu_stats.cpu_usage.total_usage, atNs },
    before,
    memoryBytes: memoryInUse(memory_stats.usage, memory_stats.stats),
    memoryLimitBytes: memory_stats.limit,
  };
}

/** Thousandths of a core between two marks; undefined when the container was started anew in between. */
export function cpuMillisBetween(from: CpuMark, to: CpuMark): number | undefined {
  const [used, passed] = [to.usedNs - from.usedNs, to.atNs - from.atNs];
  return used >= 0 && passed > 0 ? (used / passed) * 1000 : undefined;
}

/** An RFC 3339 stamp in ns since the Unix epoch, to some hundred ns; undefined for none, and for the year 1. */
function nanoseconds(stamp: string): number | undefined {
  const ms = Date.parse(stamp);
  if (!Number.isFinite(ms) || ms <= 0) return undefined;
  const fraction = /\.([0-9]+)/.exec(stamp)?.[1] ?? '';
  const sub = Number(fraction.padEnd(9, '0').slice(3, 9));
  return ms * 1e6 + sub;
}

/** Longest line that is kept; Docker's are below 10 KiB. */
const MAX_LINE = 1024 * 1024;

/** What a container uses. */
type ContainerNumbers = Pick<PodSample, 'cpuMillis' | 'cpuCapacityMillis' | 'memoryBytes' | 'memoryCapacityBytes'>;

/**
 * The stream of statistics of one container. Of the lines that come every second only the last is kept, and read when
 * somebody asks: what lies between two questions is the mean of that time.
 */
export class StatsStream {
  readonly #client: DockerClient;
  readonly #dockerId: string;
  readonly #limitsOf: (dockerId: string) => Promise<number>;
  readonly #stop = new AbortController();
  #isOpen = false;
  #line: string | undefined;
  #mark: CpuMark | undefined;
  #cpuCapacityMillis = 0;
  #isMeasured = false;
  #numbers = { cpuMillis: 0, memoryBytes: 0, memoryCapacityBytes: 0 };
  calls = 0;

  constructor(client: DockerClient, dockerId: string, limitsOf: (dockerId: string) => Promise<number>) {
    this.#client = client;
    this.#dockerId = dockerId;
    this.#limitsOf = limitsOf;
  }

  /** Opens the stream unless it is open. */
  ensure(): void {
    if (this.#isOpen || this.#stop.signal.aborted) return;
    this.#isOpen = true;
    this.#follow()
      .catch(() => undefined)
      .finally(() => {
        this.#isOpen = false;
        this.#line = undefined;
      });
  }

  /** Its mean use since the last time; nothing when it does not run; undefined when it runs and is not measured yet. */
  sample(runs: boolean): ContainerNumbers | undefined {
    const line = this.#line === undefined ? undefined : parseStats(this.#line);
    this.#line = undefined;
    if (!runs) {
      this.#mark = undefined;
      this.#isMeasured = false;
      this.#numbers = { ...this.#numbers, cpuMillis: 0, memoryBytes: 0 };
    } else if (line !== undefined) {
      const from = this.#mark ?? line.before;
      const millis = from === undefined ? undefined : cpuMillisBetween(from, line.cpu);
      this.#numbers = {
        cpuMillis: millis ?? this.#numbers.cpuMillis,
        memoryBytes: line.memoryBytes,
        memoryCapacityBytes: line.memoryLimitBytes,
      };
      this.#mark = line.cpu;
      this.#isMeasured ||= millis !== undefined;
    }
    if (runs && !this.#isMeasured) return undefined;
    return { ...this.#numbers, cpuCapacityMillis: this.#cpuCapacityMillis };
  }

  close(): void {
    this.#stop.abort();
  }

  async #follow(): Promise<void> {
    this.#cpuCapacityMillis = await this.#limitsOf(this.#dockerId);
    this.calls += 1;
    const stream = await this.#client.stream('GET', `/containers/${this.#dockerId}/stats`, {
      query: { stream: true },
      signal: this.#stop.signal,
    });
    let rest = '';
    for await (const chunk of stream) {
      if (!Buffer.isBuffer(chunk)) continue;
      rest += chunk.toString('utf8');
      const end = rest.lastIndexOf('\n');
      if (end >= 0) {
        this.#line = rest.slice(rest.lastIndexOf('\n', end - 1) + 1, end);
        rest = rest.slice(end + 1);
      }
      if (rest.length > MAX_LINE) rest = '';
    }
  }
}
