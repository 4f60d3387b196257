/** What each source said last, and since when it is silent. One that hangs is not asked until it has answered. */
import { errorText } from '../../lib/errors.ts';
import { withTimeout } from '../../lib/waiting.ts';
import type { ClusterSample, MetricsSource, NodeSample, PodSample } from '../../proto/ports/metrics-source.ts';

interface Reading {
  readonly source: MetricsSource;
  sample: ClusterSample | undefined;
  /** When the sample was taken, Unix ms; 0: never. */
  at: number;
  isBusy: boolean;
  problem: string | undefined;
}

/** What is told during a refresh. */
interface RefreshListener {
  /** A source that measures nodes has answered. */
  onNodes(): void;
  /** A source that measures pods has answered. */
  onPods(): void;
  /** A source did not answer. */
  onFailure(source: string, reason: string): void;
}

export class Readings {
  readonly #readings: readonly Reading[];

  constructor(sources: readonly MetricsSource[]) {
    this.#readings = sources.map((source) => ({
      source,
      sample: undefined,
      at: 0,
      isBusy: false,
      problem: undefined,
    }));
  }

  /** Reads all sources at once, each for at most `deadlineMs`. Resolves once `listener` was told of each. */
  async refresh(deadlineMs: number, now: () => number, listener: RefreshListener): Promise<void> {
    await Promise.all(
      this.#readings.map(async (reading) => {
        try {
          const sample = await readWithin(reading, deadlineMs);
          reading.sample = sample;
          reading.at = now();
          reading.problem = undefined;
          if (sample.nodes !== undefined) listener.onNodes();
          if (sample.pods !== undefined) listener.onPods();
        } catch (error) {
          reading.problem = errorText(error);
          listener.onFailure(reading.source.name, reading.problem);
        }
      }),
    );
  }

  /** Nodes of all sources, and when the oldest of them was measured; undefined before all of them were. */
  nodes(): { at: number; items: NodeSample[] } | undefined {
    return this.#all(({ nodes }) => nodes);
  }

  pods(): { at: number; items: PodSample[] } | undefined {
    return this.#all(({ pods }) => pods);
  }

  /** Sentences about sources that do not answer; a source is given `patienceMs` after its last word. */
  problems(now: number, patienceMs: number): string[] {
    return this.#readings.flatMap(({ source, at, problem }) => {
      if (problem === undefined || (at !== 0 && now - at < patienceMs)) return [];
      const age = at === 0 ? 'nothing was measured yet' : `last measured ${Math.round((now - at) / 1000)} s ago`;
      return [`${source.name}: ${problem} (${age})`];
    });
  }

  #all<T>(part: (sample: ClusterSample) => readonly T[] | undefined): { at: number; items: T[] } | undefined {
    let at = Number.POSITIVE_INFINITY;
    const items: T[] = [];
    for (const reading of this.#readings) {
      const found = reading.sample === undefined ? undefined : part(reading.sample);
      if (found === undefined) continue;
      at = Math.min(at, reading.at);
      items.push(...found);
    }
    return Number.isFinite(at) ? { at, items } : undefined;
  }
}

async function readWithin(reading: Reading, deadlineMs: number): Promise<ClusterSample> {
  if (reading.isBusy) throw new Error('it does not answer');
  const over = new AbortController();
  reading.isBusy = true;
  const read = reading.source.read(over.signal).finally(() => {
    reading.isBusy = false;
  });
  return withTimeout(read, deadlineMs, () => {
    over.abort();
    throw new Error('it does not answer');
  });
}
