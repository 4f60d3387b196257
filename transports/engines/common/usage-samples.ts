import type { ContainerUsage } from '../../../proto/ports/engine.ts';

/** Times of the sampling, in milliseconds. */
export interface SampleTimes {
  /** From the end of a round to the next. */
  readonly everyMs: number;
  /** A container nobody asked about for so long is not sampled; what was measured stays known. */
  readonly idleMs: number;
  /** After so long it is forgotten: it may have been deleted through another process. */
  readonly forgetMs: number;
}

interface Sample {
  askedAt: number;
  memoryBytes: number;
  storageBytes: number;
}

/** What the containers that somebody asks about use, measured in rounds. Runs no timer while nobody asks. */
export abstract class UsageSamples {
  protected readonly samples = new Map<string, Sample>();
  protected readonly stop = new AbortController();
  readonly #times: SampleTimes;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(times: SampleTimes) {
    this.#times = times;
  }

  /** Measures those of `asked`. Does not reject. */
  protected abstract round(asked: readonly string[]): Promise<void>;

  /** The last sample; zeros at first. Asking keeps the sampling of this container going. */
  usage(id: string): ContainerUsage {
    const sample = this.samples.get(id) ?? { askedAt: 0, memoryBytes: 0, storageBytes: 0 };
    sample.askedAt = performance.now();
    this.samples.set(id, sample);
    this.#schedule(0);
    return { memoryBytes: sample.memoryBytes, storageBytes: sample.storageBytes };
  }

  /** A container is gone: nothing is known of it any more. */
  forget(id: string): void {
    this.samples.delete(id);
  }

  /** Containers that something is known of. */
  get size(): number {
    return this.samples.size;
  }

  /** Ends the sampling; resolves once no call of it runs. */
  close(): Promise<void> {
    this.stop.abort();
    clearTimeout(this.#timer);
    return this.#running;
  }

  /** The containers somebody asked about lately. */
  #asked(): string[] {
    const since = performance.now() - this.#times.idleMs;
    return [...this.samples].filter(([, { askedAt }]) => askedAt >= since).map(([id]) => id);
  }

  #schedule(afterMs: number): void {
    if (this.#timer !== undefined || this.stop.signal.aborted) return;
    this.#timer = setTimeout(() => {
      const before = performance.now() - this.#times.forgetMs;
      for (const [id, { askedAt }] of this.samples) if (askedAt < before) this.samples.delete(id);
      this.#running = this.round(this.#asked()).finally(() => {
        this.#timer = undefined;
        if (this.#asked().length > 0) this.#schedule(this.#times.everyMs);
      });
    }, afterMs);
    this.#timer.unref();
  }
}
