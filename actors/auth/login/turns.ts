/** One at a time, for each key. */

/** Work under one key runs one after the other, in the order it came. What waits is bounded by whoever calls. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Keys with work. */
  get size(): number {
    return this.#last.size;
  }

  /** Runs `work` after everything that came before it under `key`, whatever became of that. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const mine = (before === undefined ? work() : before.then(work)).finally(() => {
      if (this.#last.get(key) === settled) this.#last.delete(key);
    });
    const settled = mine.catch(() => {});
    this.#last.set(key, settled);
    return mine;
  }
}
