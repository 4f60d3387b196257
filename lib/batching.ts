/** Batches: what comes one by one goes to storage or to a broker together. */

/** Most items that wait: more than sockets fit into one process. */
const MOST_WAITING = 200_000;

interface WaitingItem<I, O> {
  readonly item: I;
  readonly resolve: (result: O) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Joins loads that are asked for at the same time into few batches: ten thousand callers at once must not become ten
 * thousand calls. `answer` takes the items in order and gives a result for each, in order.
 */
export class BatchLoader<I, O> {
  readonly #answer: (items: readonly I[]) => Promise<readonly O[]>;
  readonly #most: number;
  readonly #atOnce: number;
  #waiting: WaitingItem<I, O>[] = [];
  #running = 0;

  /** At most `most` items in one batch, at most `atOnce` batches at a time. */
  constructor(
    answer: (items: readonly I[]) => Promise<readonly O[]>,
    { most, atOnce }: { readonly most: number; readonly atOnce: number },
  ) {
    this.#answer = answer;
    this.#most = most;
    this.#atOnce = atOnce;
  }

  /** The result for `item`. Rejects as its batch does, when there is no result for it, and when too many wait. */
  load(item: I): Promise<O> {
    if (this.#waiting.length >= MOST_WAITING) return Promise.reject(new Error('Too many items wait.'));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#running < this.#atOnce) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running += 1;
    // A turn later, so that what the same turn asks for comes along.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#most);
      try {
        const results = await this.#answer(batch.map(({ item }) => item));
        for (const [index, { resolve, reject }] of batch.entries()) {
          const result = results[index];
          if (result === undefined) reject(new Error('There was no result for an item.'));
          else resolve(result);
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#running -= 1;
  }
}

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
