/** Somebody who waits for a task: hears its progress until it leaves. */
interface Waiter {
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
}

interface RunningTask {
  readonly promise: Promise<void>;
  readonly stop: AbortController;
  readonly waiters: Set<Waiter>;
}

/**
 * Runs one task a key at a time: who asks while it runs joins it. A waiter whose signal aborts leaves with the signal's
 * reason; the task itself is aborted when the last one has left.
 */
export class SharedTasks {
  readonly #running = new Map<string, RunningTask>();

  run(
    key: string,
    waiter: Waiter,
    task: (onProgress: (line: string) => void, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { signal } = waiter;
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    const current = this.#running.get(key);
    const shared = current === undefined || current.stop.signal.aborted ? this.#start(key, task) : current;
    shared.waiters.add(waiter);
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        shared.waiters.delete(waiter);
        if (shared.waiters.size === 0) shared.stop.abort(signal?.reason);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', leave, { once: true });
      shared.promise.then(resolve, reject).finally(() => {
        shared.waiters.delete(waiter);
        signal?.removeEventListener('abort', leave);
      });
    });
  }

  /** Aborts what runs; resolves once all of it has ended. */
  async close(): Promise<void> {
    const all = [...this.#running.values()];
    for (const shared of all) shared.stop.abort();
    await Promise.allSettled(all.map((shared) => shared.promise));
  }

  #start(key: string, task: (onProgress: (line: string) => void, signal: AbortSignal) => Promise<void>): RunningTask {
    const waiters = new Set<Waiter>();
    const stop = new AbortController();
    const tell = (line: string): void => {
      for (const waiter of waiters) waiter.onProgress?.(line);
    };
    // A task begun while an aborted one of the same key is still ending waits for that end.
    const before = this.#running.get(key)?.promise.catch(() => undefined) ?? Promise.resolve();
    const promise = before.then(() => task(tell, stop.signal));
    const shared: RunningTask = { promise, stop, waiters };
    this.#running.set(key, shared);
    const forget = (): void => {
      if (this.#running.get(key) === shared) this.#running.delete(key);
    };
    promise.then(forget, forget);
    return shared;
  }
}
