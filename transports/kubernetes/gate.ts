/** Lets a bounded number through at a time, in the order they came. */
export class Gate {
  readonly #limit: number;
  readonly #waiting = new Set<() => void>();
  #inside = 0;

  /** `limit`: how many may be inside, 1 or more. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Runs `work` once there is room. Rejects with the reason of `signal` when it aborts before that, else as `work` does. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#inside >= this.#limit) await this.#turn(signal);
    else this.#inside += 1;
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      // Whoever is next takes the place over.
      if (next === undefined) this.#inside -= 1;
      else next();
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        this.#waiting.delete(enter);
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        this.#waiting.delete(enter);
        reject(signal?.reason);
      };
      this.#waiting.add(enter);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }
}
