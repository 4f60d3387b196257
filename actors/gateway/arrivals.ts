/**
 * Requests for containers that are starting wait a moment for the address instead of getting 503. So a client that was
 * told "running" reaches the container, although the gateway hears of it at the same moment.
 */
import type { RouteSnapshot } from './routing.ts';

/** How long a request waits, ms; and how many may wait: in all, for the containers of one owner, for one of them. */
const HOLD_MS = 15_000;
/** How long a certificate authority waits, ms: it gives up after 5 to 10 s, and the order fails. */
const AUTHORITY_HOLD_MS = 3000;
const MAX_HELD = 2000;
const MAX_HELD_PER_OWNER = 750;
const MAX_HELD_PER_CONTAINER = 500;

/** Requests that wait, by container. `snapshot`: what the gateway decides from. */
export class Arrivals {
  readonly #snapshot: () => RouteSnapshot | undefined;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** The same by owner, the one that waits longest first. */
  readonly #byOwner = new Map<string, Set<() => void>>();
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
   * wait for the container or for those of its owner. When too many wait in all, one for the owner of most waits no
   * longer: nobody keeps others from waiting.
   */
  wait(containerId: string, who: 'client' | 'authority' = 'client'): Promise<void> | undefined {
    if (!this.#isAwaited(containerId)) return undefined;
    const owner = this.#snapshot()?.containers.get(containerId)?.owner ?? containerId;
    const isFull =
      sizeAt(this.#waiting, containerId) >= MAX_HELD_PER_CONTAINER ||
      sizeAt(this.#byOwner, owner) >= MAX_HELD_PER_OWNER;
    if (isFull || (this.#held >= MAX_HELD && !this.#makeRoom(owner))) return undefined;
    this.#held++;
    return new Promise((resolve) => {
      const go = () => {
        clearTimeout(timer);
        remove(this.#waiting, containerId, go);
        remove(this.#byOwner, owner, go);
        this.#held--;
        resolve();
      };
      const timer = setTimeout(go, who === 'authority' ? AUTHORITY_HOLD_MS : HOLD_MS);
      timer.unref();
      add(this.#waiting, containerId, go);
      add(this.#byOwner, owner, go);
    });
  }

  /** Lets out the one that waited longest for the owner of most, if those are more than `owner` has. */
  #makeRoom(owner: string): boolean {
    let most = this.#byOwner.get(owner);
    const before = most?.size ?? 0;
    for (const waiting of this.#byOwner.values()) if (waiting.size > (most?.size ?? 0)) most = waiting;
    if (most === undefined || most.size <= before) return false;
    const [oldest] = most;
    oldest?.();
    return true;
  }

  #isAwaited(id: string): boolean {
    const container = this.#snapshot()?.containers.get(id);
    if (container === undefined || container.address !== undefined) return false;
    return container.isComing === true || this.#news.has(id);
  }
}

function sizeAt(waiting: ReadonlyMap<string, ReadonlySet<() => void>>, key: string): number {
  return waiting.get(key)?.size ?? 0;
}

function add(waiting: Map<string, Set<() => void>>, key: string, go: () => void): void {
  const known = waiting.get(key);
  if (known === undefined) waiting.set(key, new Set([go]));
  else known.add(go);
}

function remove(waiting: Map<string, Set<() => void>>, key: string, go: () => void): void {
  const known = waiting.get(key);
  known?.delete(go);
  if (known?.size === 0) waiting.delete(key);
}
