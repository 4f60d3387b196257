/** A pause that ends early when there is news. One waits at a time. */
export class InterruptiblePause {
  #isWoken = false;
  #wake: (() => void) | undefined;

  /** Ends the pause under way, and the next at once unless `reset` comes before. */
  wake(): void {
    this.#isWoken = true;
    this.#wake?.();
  }

  /** What came so far is news no more. */
  reset(): void {
    this.#isWoken = false;
  }

  /** Resolves after `ms`, or once it is woken. */
  async wait(ms: number): Promise<void> {
    if (this.#isWoken) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}
