import type { DockerClient } from '../api/client.ts';
import { type CpuMark, cpuMillisBetween, parseStats } from './stats-line.ts';

/** Longest line that is kept; Docker's are below 10 KiB. */
const MAX_LINE = 1024 * 1024;

/** What a container uses, in the units of PodSample. */
interface ContainerNumbers {
  readonly cpuMillis: number;
  readonly cpuCapacityMillis: number;
  readonly memoryBytes: number;
  readonly memoryCapacityBytes: number;
}

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
