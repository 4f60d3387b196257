import { BusError } from '../../proto/ports/bus.ts';

interface BatcherLimits {
  /** Most items in one batch. */
  readonly items: number;
  /** Most bytes in one batch (one item may be larger). */
  readonly bytes: number;
  /** Most bytes that wait, over all batches; beyond, `add` rejects with BusError `unavailable`. */
  readonly waitingBytes: number;
}

interface WaitingPublish<I, O> {
  readonly item: I;
  readonly bytes: number;
  readonly resolve: (result: O) => void;
  readonly reject: (error: unknown) => void;
}

// What an entry costs besides its payload, so that empty payloads are bounded too.
const OVERHEAD_BYTES = 128;

/**
 * Joins what is asked for at the same time: one batch runs, what comes meanwhile makes the next. No timer: a lone item
 * leaves at once. `flush` takes the items in order and gives a result for each, in order.
 */
export class Batcher<I, O> {
  readonly #flush: (items: readonly I[]) => Promise<readonly O[]>;
  readonly #limits: BatcherLimits;
  #waiting: WaitingPublish<I, O>[] = [];
  #waitingBytes = 0;
  #running: Promise<void> | undefined;

  constructor(flush: (items: readonly I[]) => Promise<readonly O[]>, limits: BatcherLimits) {
    this.#flush = flush;
    this.#limits = limits;
  }

  add(item: I, payloadBytes = 0): Promise<O> {
    const bytes = payloadBytes + OVERHEAD_BYTES;
    if (this.#waitingBytes + bytes > this.#limits.waitingBytes) {
      return Promise.reject(new BusError('unavailable', 'Too much waits to be stored.'));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, bytes, resolve, reject });
      this.#waitingBytes += bytes;
      this.#running ??= this.#run();
    });
  }

  /** Resolves once nothing waits or runs. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // One turn later, so that what the same turn asks for comes along.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#takeBatch();
      try {
        const results = await this.#flush(batch.map(({ item }) => item));
        for (const [index, { resolve, reject }] of batch.entries()) {
          const result = results[index];
          if (result === undefined) reject(new Error('A batch gave too few results.'));
          else resolve(result);
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#running = undefined;
  }

  #takeBatch(): WaitingPublish<I, O>[] {
    let count = 0;
    let bytes = 0;
    for (const waiting of this.#waiting) {
      if (count > 0 && (count >= this.#limits.items || bytes + waiting.bytes > this.#limits.bytes)) break;
      count += 1;
      bytes += waiting.bytes;
    }
    this.#waitingBytes -= bytes;
    // The rest moves once a batch, of at most some hundred items.
    return this.#waiting.splice(0, count);
  }
}
