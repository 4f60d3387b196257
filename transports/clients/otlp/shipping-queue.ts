/** What waits to be sent to a collector: bounded, so that while it is away the oldest are dropped, and nobody waits. */
import { waitAtMost } from '../../../lib/waiting.ts';

interface ShippingOptions<T> {
  /** Most items that wait. */
  readonly capacity: number;
  /** Items of one moment leave together: how long they are gathered, ms. */
  readonly gatherMs: number;
  /** Pause after the collector did not take a batch, ms. */
  readonly retryMs: number;
  /** Sends a batch; false, or a rejection, when the collector did not take it. */
  readonly send: (batch: T[]) => Promise<boolean>;
}

const BATCH = 512;

/** Sends items in batches, one at a time, and counts what became of them. */
export class ShippingQueue<T> {
  shipped = 0;
  dropped = 0;
  readonly #options: ShippingOptions<T>;
  readonly #queue: T[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: ShippingOptions<T>) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  add(item: T): void {
    if (this.#isClosed) return;
    this.#queue.push(item);
    this.#trim();
    this.#later(this.#options.gatherMs);
  }

  /** Sends what waits, for at most `graceMs`; the rest counts as dropped. */
  async close(graceMs: number): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await waitAtMost(
      Promise.resolve(this.#sending).then(() => this.#sendAll()),
      graceMs,
    );
    this.dropped += this.#queue.splice(0).length;
  }

  #trim(): void {
    const excess = this.#queue.length - this.#options.capacity;
    if (excess > 0) this.dropped += this.#queue.splice(0, excess).length;
  }

  #later(ms: number): void {
    if (this.#timer !== undefined || this.#sending !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#sending = this.#sendAll().then((isTaken) => {
        this.#sending = undefined;
        if (this.#queue.length > 0) this.#later(isTaken ? this.#options.gatherMs : this.#options.retryMs);
      });
    }, ms).unref();
  }

  /** False when the collector did not take them. Never rejects. */
  async #sendAll(): Promise<boolean> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, BATCH);
      if (await this.#options.send(batch).catch(() => false)) this.shipped += batch.length;
      else {
        this.#queue.unshift(...batch);
        this.#trim();
        return false;
      }
    }
    return true;
  }
}
