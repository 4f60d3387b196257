import { setMaxListeners } from 'node:events';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { errorText } from '../../../../lib/errors.ts';
import { namespaceOf } from '../../../../proto/monitor/endpoints.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import type { MetricsSource, PodSample } from '../../../../proto/ports/metrics-source.ts';
import { isReply, jsonLines } from '../../common/calls.ts';
import { DockerClient } from '../api/client.ts';
import { containerView, foundIn, listedContainer } from '../container-view.ts';
import { containerOfEvent } from '../events.ts';
import { labels, type Naming, namingOf } from '../naming.ts';
import { StatsStream } from './stats-stream.ts';
import { diskUsageOf } from './usage.ts';

/** What Docker metrics are made from. */
interface DockerMetricsOptions {
  /** `unix:///path` or `tcp://host:port`. */
  readonly host: string;
  readonly installation: string;
  /** Name of the machine. */
  readonly node: string;
  readonly log: Log;
}

const listed = z.array(listedContainer);
const engineInfo = z.object({ ID: z.string() });

const ANSWER_MS = 4000;
/** Between two looks at what containers hold on disk, which is expensive for Docker. */
const DISK_MS = 60_000;

/**
 * The containers of one installation. A read costs one call, however many clients and containers there are; each
 * container costs one more when it appears and one stream of statistics while it runs.
 */
export function dockerMetrics(options: DockerMetricsOptions): MetricsSource {
  const naming = namingOf(options.installation);
  const client = new DockerClient(options.host);
  const history = new ContainerHistory(client, naming);
  const watched = new Map<string, StatsStream>();
  const disk = new DiskWatch(client, naming, options.log);
  const stop = new AbortController();
  // Each container that appears is asked for by it, all at once after a start.
  setMaxListeners(0, stop.signal);
  let calls = 0;

  const limitsOf = async (dockerId: string): Promise<number> => {
    calls += 1;
    const { HostConfig } = await client.json('GET', `/containers/${dockerId}/json`, containerView, {
      timeoutMs: ANSWER_MS,
      signal: stop.signal,
    });
    return HostConfig.NanoCpus / 1e6;
  };

  const leave = (isLeft: (dockerId: string) => boolean): void => {
    for (const [dockerId, stream] of watched) {
      if (!isLeft(dockerId)) continue;
      calls += stream.calls;
      watched.delete(dockerId);
      stream.close();
    }
  };

  return {
    name: 'docker',
    get calls() {
      let sum = calls + history.calls + disk.calls;
      for (const stream of watched.values()) sum += stream.calls;
      return sum;
    },
    async read(signal) {
      calls += 1;
      const found = await client.json('GET', '/containers/json', listed, {
        query: { all: true, filters: naming.filters() },
        timeoutMs: ANSWER_MS,
        signal,
      });
      history.ensure();
      disk.look();
      const pods: PodSample[] = [];
      const present = new Set<string>();
      for (const container of found) {
        const { Id, State, Labels } = container;
        const id = naming.containerOf(foundIn(container));
        const userId = Labels?.[labels.user];
        if (id === undefined || !userId) continue;
        const life = history.of(id);
        const runs = State === 'running' || State === 'paused';
        if (!runs && life?.hasCrashed !== true) continue;
        present.add(Id);
        let stream = watched.get(Id);
        if (stream === undefined) {
          stream = new StatsStream(client, Id, limitsOf);
          watched.set(Id, stream);
        }
        if (runs) stream.ensure();
        const numbers = stream.sample(runs);
        // It comes with its first real numbers, a second after its start: a zero would be one that nobody measured.
        if (numbers === undefined) continue;
        pods.push({
          name: id,
          namespace: namespaceOf(userId, id),
          node: options.node,
          userId,
          containerId: id,
          ...numbers,
          diskBytes: disk.bytesOf(id),
          restarts: life?.restarts ?? 0,
          crashedAt: life?.crashedAt ?? [],
          oomKills: life?.oomKills ?? 0,
          ...(life?.oomAt === undefined ? {} : { oomAt: life.oomAt }),
        });
      }
      leave((dockerId) => !present.has(dockerId));
      return { pods };
    },
    async identify(signal) {
      calls += 1;
      const { ID } = await client.json('GET', '/info', engineInfo, { timeoutMs: ANSWER_MS, signal });
      return `docker ${ID} ${options.installation}`;
    },
    rest() {
      leave(() => true);
      history.ensure();
    },
    async close() {
      stop.abort();
      leave(() => true);
      await Promise.all([history.close(), disk.close()]);
      client.close();
    },
  };
}

/** What containers hold on disk, looked at beside the reads. */
class DiskWatch {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #log: Log;
  readonly #stop = new AbortController();
  #bytes: ReadonlyMap<string, number> = new Map();
  #lookedAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;
  calls = 0;

  constructor(client: DockerClient, naming: Naming, log: Log) {
    this.#client = client;
    this.#naming = naming;
    this.#log = log;
  }

  bytesOf(id: string): number {
    return this.#bytes.get(id) ?? 0;
  }

  /** Looks unless it does, or did lately. */
  look(): void {
    if (performance.now() - this.#lookedAt < DISK_MS) return;
    this.#looking ??= this.#count().finally(() => {
      this.#looking = undefined;
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#looking;
  }

  async #count(): Promise<void> {
    this.calls += 1;
    try {
      this.#bytes = await diskUsageOf(this.#client, this.#naming, this.#stop.signal);
      this.#lookedAt = performance.now();
    } catch (error) {
      // 409: somebody else's count is under way. Either way the next read tries again.
      if (!isReply(error, 409) && !this.#stop.signal.aborted)
        this.#log.debug({ reason: errorText(error) }, 'cannot add up what containers hold on disk');
    }
  }
}

const event = z.object({
  Action: z.string(),
  timeNano: z.number(),
  Actor: z.object({ Attributes: z.record(z.string(), z.string()).default({}) }),
});

/** What happened to a container since somebody watches. */
interface ContainerLife {
  restarts: number;
  /** Ends that nobody asked for, Unix ms: the last few. */
  crashedAt: number[];
  oomKills: number;
  oomAt: number | undefined;
  /** It was told to end. */
  isTold: boolean;
  hasCrashed: boolean;
}

const ACTIONS = ['start', 'kill', 'die', 'oom', 'destroy'];
const REMEMBERED_CRASHES = 10;
/** More than the engine itself remembers, which are 256. */
const REMEMBERED_EVENTS = 1000;

/** Crashes, restarts and memory kills of the containers of one installation, counted from the engine's events. */
export class ContainerHistory {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #lives = new Map<string, ContainerLife>();
  readonly #stop = new AbortController();
  /** When the last event was, ns: after a lost connection those since then are asked for, and come again in part. */
  #lastNs = 0;
  /** The last events counted. Not by their times: the clock of the engine's machine may be set back. */
  readonly #counted = new LRUCache<string, true>({ max: REMEMBERED_EVENTS });
  #following: Promise<void> | undefined;
  calls = 0;

  constructor(client: DockerClient, naming: Naming) {
    this.#client = client;
    this.#naming = naming;
  }

  of(id: string): ContainerLife | undefined {
    return this.#lives.get(id);
  }

  /** Follows the events unless it does already. A connection that ends is opened again by the next call. */
  ensure(): void {
    if (this.#stop.signal.aborted) return;
    this.#following ??= this.#follow()
      .catch(() => undefined)
      .finally(() => {
        this.#following = undefined;
      });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#following;
  }

  /** Counts one event; those counted before are left out. */
  count(value: unknown): void {
    const parsed = event.safeParse(value);
    if (!parsed.success) return;
    const { Action, timeNano, Actor } = parsed.data;
    const id = containerOfEvent(Actor.Attributes, this.#naming);
    if (id === undefined || !this.#isNew(`${timeNano} ${Action} ${id}`)) return;
    this.#lastNs = timeNano;
    if (Action === 'destroy') {
      this.#lives.delete(id);
      return;
    }
    const at = timeNano / 1e6;
    const life = this.#lives.get(id) ?? newLife();
    this.#lives.set(id, life);
    if (Action === 'kill') life.isTold = true;
    else if (Action === 'oom') {
      life.oomKills += 1;
      life.oomAt = at;
    } else if (Action === 'die' && !life.isTold) {
      life.hasCrashed = true;
      life.crashedAt = [...life.crashedAt, at].slice(-REMEMBERED_CRASHES);
    } else if (Action === 'start') {
      if (life.hasCrashed) life.restarts += 1;
      life.hasCrashed = false;
      life.isTold = false;
    }
  }

  #isNew(event: string): boolean {
    if (this.#counted.has(event)) return false;
    this.#counted.set(event, true);
    return true;
  }

  async #follow(): Promise<void> {
    this.calls += 1;
    const filters = JSON.stringify({
      type: ['container'],
      label: [`${labels.installation}=${this.#naming.installation}`],
      event: ACTIONS,
    });
    const since = this.#lastNs === 0 ? {} : { since: (this.#lastNs / 1e9).toFixed(9) };
    const stream = await this.#client.stream('GET', '/events', {
      query: { filters, ...since },
      headTimeoutMs: 5000,
      signal: this.#stop.signal,
    });
    for await (const line of jsonLines(stream)) this.count(line);
  }
}

function newLife(): ContainerLife {
  return { restarts: 0, crashedAt: [], oomKills: 0, oomAt: undefined, isTold: false, hasCrashed: false };
}
