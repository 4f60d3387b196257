/** Runs work under one key one after the other, in the order it came. The caller bounds how much waits. */
export class KeyedQueue {
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
