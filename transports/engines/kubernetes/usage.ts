import { errorText } from '../../../lib/errors.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { UsageSamples } from '../common/usage-samples.ts';
import type { KubeClient } from './client.ts';
import { kubeletSummary } from './kubelet-summary.ts';
import { podsOfMetricsApi } from './metrics-api.ts';
import type { KubeNaming } from './naming.ts';
import type { PodView } from './views.ts';

const IDLE_MS = 60_000;
const FORGET_MS = 3_600_000;

/** Samples the containers somebody asks about: one question to each node they are on. */
export class KubeUsage extends UsageSamples {
  readonly #client: KubeClient;
  readonly #podsOf: () => Promise<readonly PodView[]>;
  readonly #naming: KubeNaming;
  readonly #log: Log;

  /** `podsOf`: the pods that are the containers of the installation. */
  constructor(
    client: KubeClient,
    podsOf: () => Promise<readonly PodView[]>,
    naming: KubeNaming,
    log: Log,
    everyMs: number,
  ) {
    super({ everyMs, idleMs: IDLE_MS, forgetMs: FORGET_MS });
    this.#client = client;
    this.#podsOf = podsOf;
    this.#naming = naming;
    this.#log = log;
  }

  protected async round(): Promise<void> {
    try {
      await this.#measure();
    } catch (error) {
      if (!this.stop.signal.aborted)
        this.#log.debug({ reason: errorText(error) }, 'cannot sample the usage of containers');
    }
  }

  async #measure(): Promise<void> {
    const pods = await this.#podsOf();
    const ids = new Map(
      pods.map(({ metadata }) => [`${metadata.namespace}/${metadata.name}`, this.#naming.idOf(metadata.labels)]),
    );
    const nodes = new Set(pods.filter(({ status }) => status.phase === 'Running').map(({ spec }) => spec.nodeName));
    nodes.delete('');
    const measured = new Set<string>();
    const note = (pod: string, memoryBytes: number, storageBytes?: number): void => {
      const id = ids.get(pod);
      const sample = id === undefined ? undefined : this.samples.get(id);
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
    for (const [id, sample] of this.samples) if (!measured.has(id)) sample.memoryBytes = 0;
  }

  async #askNode(node: string, note: (pod: string, memory: number, storage?: number) => void): Promise<void> {
    const { pods } = await kubeletSummary(this.#client, node, { timeoutMs: 10_000 });
    for (const [pod, { memoryBytes, diskBytes }] of pods) note(pod, memoryBytes, diskBytes);
  }

  async #askMetrics(note: (pod: string, memory: number) => void): Promise<void> {
    const pods = await podsOfMetricsApi(this.#client, this.#naming.selector(), {});
    for (const [pod, { memoryBytes }] of pods ?? []) note(pod, memoryBytes);
  }
}
