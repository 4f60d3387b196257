import { errorText } from '../../../lib/error-text.ts';
import type { ContainerUsage } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { KubeClient } from './client.ts';
import { kubeletSummary } from './kubelet-summary.ts';
import { podsOfMetricsApi } from './metrics-api.ts';
import type { KubeNaming } from './naming.ts';
import type { PodView } from './views.ts';

const IDLE_MS = 60_000;
/** After so long without a question a container is forgotten: it may have been deleted through another process. */
const FORGET_MS = 3_600_000;

/**
 * Samples the containers somebody asks about: one question to each node they are on. Runs no timer while nobody asks.
 */
export class KubeUsage {
  readonly #client: KubeClient;
  readonly #podsOf: () => Promise<readonly PodView[]>;
  readonly #naming: KubeNaming;
  readonly #log: Log;
  readonly #everyMs: number;
  readonly #samples = new Map<string, { askedAt: number; memoryBytes: number; storageBytes: number }>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<void> = Promise.resolve();
  #closed = false;

  /** `podsOf`: all pods of the installation. */
  constructor(
    client: KubeClient,
    podsOf: () => Promise<readonly PodView[]>,
    naming: KubeNaming,
    log: Log,
    everyMs: number,
  ) {
    this.#client = client;
    this.#podsOf = podsOf;
    this.#naming = naming;
    this.#log = log;
    this.#everyMs = everyMs;
  }

  /** The last sample; zeros at first. */
  usage(id: string): ContainerUsage {
    const sample = this.#samples.get(id) ?? { askedAt: 0, memoryBytes: 0, storageBytes: 0 };
    sample.askedAt = performance.now();
    this.#samples.set(id, sample);
    this.#schedule(0);
    return { memoryBytes: sample.memoryBytes, storageBytes: sample.storageBytes };
  }

  forget(id: string): void {
    this.#samples.delete(id);
  }

  /** Containers that something is known of. */
  get size(): number {
    return this.#samples.size;
  }

  close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    return this.#running;
  }

  #schedule(afterMs: number): void {
    if (this.#timer !== undefined || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#running = this.#round()
        .catch((error: unknown) => {
          if (!this.#closed) this.#log.debug({ reason: errorText(error) }, 'cannot sample the usage of containers');
        })
        .finally(() => {
          this.#timer = undefined;
          const now = performance.now();
          if ([...this.#samples.values()].some(({ askedAt }) => now - askedAt < IDLE_MS)) this.#schedule(this.#everyMs);
        });
    }, afterMs);
    this.#timer.unref();
  }

  async #round(): Promise<void> {
    const now = performance.now();
    for (const [id, { askedAt }] of this.#samples) if (now - askedAt > FORGET_MS) this.#samples.delete(id);
    const pods = await this.#podsOf();
    const ids = new Map(pods.map(({ metadata }) => [metadata.namespace, this.#naming.idOf(metadata.labels)]));
    const nodes = new Set(pods.filter(({ status }) => status.phase === 'Running').map(({ spec }) => spec.nodeName));
    nodes.delete('');
    const measured = new Set<string>();
    const note = (namespace: string, memoryBytes: number, storageBytes?: number): void => {
      const id = ids.get(namespace);
      const sample = id === undefined ? undefined : this.#samples.get(id);
      if (id === undefined || sample === undefined) return;
      measured.add(id);
      sample.memoryBytes = memoryBytes;
      if (storageBytes !== undefined) sample.storageBytes = storageBytes;
    };
    for (const node of nodes) {
      try {
        await this.#askNode(node, note);
      } catch (error) {
        // It may not be asked, or is away: memory at least may be known elsewhere.
        this.#log.debug({ node, reason: errorText(error) }, 'a node does not tell usage');
        await this.#askMetrics(note);
        break;
      }
    }
    for (const [id, sample] of this.#samples) if (!measured.has(id)) sample.memoryBytes = 0;
  }

  async #askNode(node: string, note: (ns: string, memory: number, storage?: number) => void): Promise<void> {
    const { pods } = await kubeletSummary(this.#client, node, { timeoutMs: 10_000 });
    for (const [namespace, { memoryBytes, diskBytes }] of pods) note(namespace, memoryBytes, diskBytes);
  }

  async #askMetrics(note: (ns: string, memory: number) => void): Promise<void> {
    const pods = await podsOfMetricsApi(this.#client, this.#naming.selector(), {});
    for (const [namespace, { memoryBytes }] of pods ?? []) note(namespace, memoryBytes);
  }
}
