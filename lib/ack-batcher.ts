/** Most acknowledgements in one batch. */
const MAX_ITEMS = 1000;

interface Batch<I> {
  readonly items: I[];
  readonly sent: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Gathers acknowledgements: one batch is on its way, what comes meanwhile leaves with the next. All of a batch share
 * one promise, which makes each acknowledgement cheap. The caller bounds how many wait.
 */
export class AckBatcher<I> {
  readonly #send: (items: readonly I[]) => Promise<void>;
  readonly #waiting: Batch<I>[] = [];
  #running: Promise<void> | undefined;

  constructor(send: (items: readonly I[]) => Promise<void>) {
    this.#send = send;
  }

  /** Resolves once the batch with `item` is sent; rejects with what `send` rejects with. */
  add(item: I): Promise<void> {
    let batch = this.#waiting.at(-1);
    if (batch === undefined || batch.items.length >= MAX_ITEMS) {
      batch = newBatch();
      this.#waiting.push(batch);
    }
    batch.items.push(item);
    this.#running ??= this.#run();
    return batch.sent;
  }

  /** Resolves once nothing waits or is on its way. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // One turn later, so that what the same turn adds comes along.
    await Promise.resolve();
    for (let batch = this.#waiting.shift(); batch !== undefined; batch = this.#waiting.shift()) {
      try {
        await this.#send(batch.items);
        batch.resolve();
      } catch (error) {
        batch.reject(error);
      }
    }
    this.#running = undefined;
  }
}

function newBatch<I>(): Batch<I> {
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const sent = new Promise<void>((fulfil, refuse) => {
    resolve = fulfil;
    reject = refuse;
  });
  return { items: [], sent, resolve, reject };
}
