/**
 * Publishes snapshots to `cluster.metrics` and `cluster.pods`. Nobody waits for it: of each
 * subject one message is on its way at most, and what comes while the broker is away or slow is dropped and counted.
 */
import { encodeClusterMetrics, encodeClusterPods } from '../../proto/monitor/cluster.ts';
import { BusError } from '../../proto/ports/bus.ts';
import type { NodeSample, PodSample } from '../../proto/ports/metrics-source.ts';
import { CLUSTER_STREAM } from '../../proto/subjects.ts';
import type { MonitorDeps } from './deps.ts';

export class Publisher {
  readonly #deps: MonitorDeps;
  readonly #busy = new Set<string>();
  #hasStream = false;
  #isComplaining = false;

  constructor(deps: MonitorDeps) {
    this.#deps = deps;
  }

  /** Makes the stream if it is missing. Never rejects: the next message tries again. */
  async prepare(): Promise<void> {
    try {
      await this.#deps.bus.ensureStream(CLUSTER_STREAM);
      this.#hasStream = true;
    } catch (error) {
      this.#complain(error);
    }
  }

  nodes(nodes: readonly NodeSample[], at: number): void {
    void this.#publish('cluster.metrics', () => encodeClusterMetrics(nodes, at));
  }

  pods(pods: readonly PodSample[], at: number): void {
    void this.#publish('cluster.pods', () => encodeClusterPods(pods, at));
  }

  async #publish(subject: string, encode: () => { msgId: string; data: Uint8Array }): Promise<void> {
    const { bus, numbers } = this.#deps;
    if (this.#busy.has(subject)) {
      numbers.dropped += 1;
      return;
    }
    this.#busy.add(subject);
    try {
      if (!this.#hasStream) await this.prepare();
      const { msgId, data } = encode();
      await bus.append(subject, data, { msgId });
      numbers.published += 1;
      this.#isComplaining = false;
    } catch (error) {
      numbers.dropped += 1;
      // Somebody removed it, or the broker came back with an empty store.
      if (error instanceof BusError && error.code === 'no_stream') this.#hasStream = false;
      this.#complain(error);
    } finally {
      this.#busy.delete(subject);
    }
  }

  /** Once for each time the broker is away. */
  #complain(error: unknown): void {
    if (this.#isComplaining) return;
    this.#isComplaining = true;
    this.#deps.log.warn({ err: error }, 'metrics are not published: the broker is away');
  }
}
