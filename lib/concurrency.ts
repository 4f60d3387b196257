/**
 * How much work runs at once: a bound on all of it, a bound for each key, one at a time for each key, one task for all
 * who ask for it.
 */

/** How a piece of work waits. */
export interface SemaphoreOptions {
  /** Ends the waiting. */
  readonly signal?: AbortSignal;
  /** Goes before work that is not urgent. */
  readonly isUrgent?: boolean;
}

/** Runs a bounded number of pieces of work at a time, in the order they came. */
export class Semaphore {
  readonly #limit: number;
  readonly #waiting = { urgent: new Set<() => void>(), other: new Set<() => void>() };
  #inside = 0;

  /** `limit`: how many run at a time, 1 or more. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.urgent.size + this.#waiting.other.size;
  }

  /** Runs `work` once there is room. Rejects with the reason of `signal` if it aborts before, else as `work` does. */
  async run<T>(work: () => Promise<T>, { signal, isUrgent = false }: SemaphoreOptions = {}): Promise<T> {
    signal?.throwIfAborted();
    if (this.#inside >= this.#limit) await this.#turn(isUrgent ? this.#waiting.urgent : this.#waiting.other, signal);
    else this.#inside += 1;
    try {
      return await work();
    } finally {
      const { urgent, other } = this.#waiting;
      const [next] = urgent.size > 0 ? urgent : other;
      // Whoever is next takes the place over.
      if (next === undefined) this.#inside -= 1;
      else next();
    }
  }

  #turn(waiting: Set<() => void>, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        waiting.delete(enter);
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        waiting.delete(enter);
        reject(signal?.reason);
      };
      waiting.add(enter);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }
}

/** Bounds how much is under way for each key, and in all, where what is too much is refused and does not wait. */
export class KeyedLimit {
  readonly #ofKey: number;
  readonly #inAll: number;
  readonly #inside = new Map<string, number>();
  #total = 0;

  /** `ofKey`: most under one key; `inAll`: most of all keys together. */
  constructor(ofKey: number, inAll = Number.POSITIVE_INFINITY) {
    this.#ofKey = ofKey;
    this.#inAll = inAll;
  }

  /**
   * Takes a place under `key`: what gives it back, which counts once. Undefined when there is none. `ofKey`: most under
   * this one.
   */
  enter(key: string, ofKey = this.#ofKey): (() => void) | undefined {
    const count = this.#inside.get(key) ?? 0;
    if (count >= ofKey || this.#total >= this.#inAll) return undefined;
    this.#inside.set(key, count + 1);
    this.#total++;
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      this.#total--;
      const left = (this.#inside.get(key) ?? 1) - 1;
      if (left > 0) this.#inside.set(key, left);
      else this.#inside.delete(key);
    };
  }
}

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

/** Runs `work` in its turn. Resolves with undefined, and it is not run, when that has not come within `mostMs`. */
export function soonInTurn<T>(
  queue: KeyedQueue,
  key: string,
  mostMs: number,
  work: () => Promise<T>,
): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    let hasLeft = false;
    const timer = setTimeout(() => {
      hasLeft = true;
      resolve(undefined);
    }, mostMs);
    const turn = async () => {
      if (hasLeft) return undefined;
      clearTimeout(timer);
      return work();
    };
    queue.run(key, turn).then(resolve, reject);
  });
}

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
