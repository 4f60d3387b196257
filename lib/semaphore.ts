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
