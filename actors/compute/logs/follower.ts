/** A stream of the engine's that readers of one log share. It is read when a reader at its end wants more. */
import type { Engine } from '../../../proto/ports/engine.ts';
import { LogRing } from './ring.ts';

/** How many lines it begins with: readers are to find their place among them. */
const TAIL = 1000;

/** The follower of one container. */
export class LogFollower {
  readonly ring = new LogRing();
  /** Undefined while it goes on; `broken`: the engine broke off, and whoever asks again may get more. */
  end: 'over' | 'broken' | undefined;
  readonly #controller = new AbortController();
  readonly #onNews: () => void;
  #isWanted = true;
  #want: (() => void) | undefined;

  /** `onNews`: told when there are lines, and at the end. */
  constructor(engine: Pick<Engine, 'logs'>, containerId: string, onNews: () => void) {
    this.#onNews = onNews;
    void this.#run(engine, containerId);
  }

  /** Somebody waits for what comes next. */
  want(): void {
    this.#isWanted = true;
    this.#want?.();
  }

  /** Nobody reads it any more. */
  close(): void {
    this.#controller.abort();
    this.#want?.();
  }

  async #run(engine: Pick<Engine, 'logs'>, containerId: string): Promise<void> {
    const { signal } = this.#controller;
    try {
      for await (const lines of engine.logs(containerId, { tail: TAIL, follow: true, signal })) {
        this.ring.push(lines);
        this.#isWanted = false;
        this.#onNews();
        // Whoever was told may want more by now.
        await Promise.resolve();
        while (!this.#isWanted && !signal.aborted)
          await new Promise<void>((resolve) => {
            this.#want = resolve;
          });
        if (signal.aborted) return;
      }
      this.end = 'over';
    } catch {
      // Readers ask the engine themselves, and are told by it.
      this.end = 'broken';
    }
    this.#onNews();
  }
}
