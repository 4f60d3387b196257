/**
 * Requests for containers that are starting wait a moment for the address instead of getting 503. So a client that was
 * told "running" reaches the container, although the gateway hears of it at the same moment.
 */
import type { RouteSnapshot } from './routing.ts';

/** How long a request waits, ms; and how many requests may wait, in all and for one container. */
const HOLD_MS = 15_000;
/** How long a certificate authority waits, ms: it gives up after 5 to 10 s, and the order fails. */
const AUTHORITY_HOLD_MS = 3000;
const MAX_HELD = 2000;
const MAX_HELD_PER_CONTAINER = 500;

/** Requests that wait, by container. `snapshot`: what the gateway decides from. */
export class Arrivals {
  readonly #snapshot: () => RouteSnapshot | undefined;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Containers with news that no look has followed yet. */
  #news = new Set<string>();
  #held = 0;

  constructor(snapshot: () => RouteSnapshot | undefined) {
    this.#snapshot = snapshot;
  }

  /** There is news of the container: it is being started, or runs. */
  expect(containerId: string): void {
    this.#news.add(containerId);
  }

  /** A look at routes and containers begins. Call what comes back when the snapshot shows what the look saw. */
  look(): () => void {
    const before = [...this.#news];
    return () => {
      for (const id of before) this.#news.delete(id);
      for (const [id, waiting] of this.#waiting) if (!this.#isAwaited(id)) for (const go of waiting) go();
    };
  }

  /**
   * Resolves when the container has an address or is not awaited any more, at the latest after HOLD_MS, for a
   * certificate authority after AUTHORITY_HOLD_MS. Undefined when there is nothing to wait for, or too many requests
   * wait.
   */
  wait(containerId: string, who: 'client' | 'authority' = 'client'): Promise<void> | undefined {
    const known = this.#waiting.get(containerId);
    if (!this.#isAwaited(containerId) || this.#held >= MAX_HELD || (known?.size ?? 0) >= MAX_HELD_PER_CONTAINER)
      return undefined;
    const waiting = known ?? new Set();
    this.#waiting.set(containerId, waiting);
    this.#held++;
    return new Promise((resolve) => {
      const go = () => {
        clearTimeout(timer);
        waiting.delete(go);
        if (waiting.size === 0) this.#waiting.delete(containerId);
        this.#held--;
        resolve();
      };
      const timer = setTimeout(go, who === 'authority' ? AUTHORITY_HOLD_MS : HOLD_MS);
      timer.unref();
      waiting.add(go);
    });
  }

  #isAwaited(id: string): boolean {
    const container = this.#snapshot()?.containers.get(id);
    if (container === undefined || container.address !== undefined) return false;
    return container.isComing === true || this.#news.has(id);
  }
}
