/** The barrier before the registry that comes along: nobody writes there while its store is collected. */
import { setTimeout as delay } from 'node:timers/promises';
import type { UpstreamAddress } from '../../../proto/gateway/traffic.ts';
import type { LeaveBarrier, WriteBarrier } from '../../../proto/gateway/write-barrier.ts';

/** How long a write waits at the closed barrier, ms. */
const HELD_MS = 30_000;
/** Writes that wait at most. */
const MOST_HELD = 1000;
/**
 * How long the registry may still work for a client that is gone: it writes the manifest for which it has looked at
 * the layers. ms.
 */
const SETTLE_MS = 250;
/** Between two looks at whether the last write is over, ms. */
const LOOK_MS = 20;

/** One that waits. */
interface HeldWrite {
  readonly resolve: (leave: LeaveBarrier | undefined) => void;
  readonly timer: NodeJS.Timeout;
}

/** See above. */
export class RegistryBarrier implements WriteBarrier {
  readonly address: UpstreamAddress;
  /** Says whether there is room for a write; without it there always is. */
  admit: WriteBarrier['admit'];
  readonly #heldMs: number;
  readonly #held = new Set<HeldWrite>();
  #writes = 0;
  /** Of what others let in before: in the future until it is surely over. */
  #lastWrite: number;
  #isClosed = false;

  /**
   * `heldMs`: how long a write waits at the closed barrier. `formerMs`: how long the registry may still work for
   * clients of a barrier that was there before.
   */
  constructor(
    address: UpstreamAddress,
    options: { readonly heldMs?: number; readonly formerMs?: number | undefined } = {},
  ) {
    const { heldMs = HELD_MS, formerMs = 0 } = options;
    this.address = address;
    this.#heldMs = heldMs;
    this.#lastWrite = performance.now() + formerMs;
  }

  /** For how long nobody has written, ms; 0 while somebody writes. */
  get quietMs(): number {
    return this.#writes > 0 ? 0 : Math.max(0, performance.now() - this.#lastWrite);
  }

  /** Whether writes wait now. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Writes that wait. */
  get held(): number {
    return this.#held.size;
  }

  enter(): LeaveBarrier | Promise<LeaveBarrier | undefined> {
    if (!this.#isClosed) return this.#letIn();
    if (this.#held.size >= MOST_HELD) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#held.delete(held);
        resolve(undefined);
      }, this.#heldMs);
      const held: HeldWrite = { resolve, timer };
      this.#held.add(held);
    });
  }

  /**
   * Does `work` while nobody writes: closes the barrier, waits for the writes under way, and opens it when `work` is
   * over. Resolves with undefined when it is closed for something else, and, with the barrier open, when writes go on
   * for longer than `patienceMs`. Rejects as `work` does.
   */
  async closedFor<T>(patienceMs: number, work: () => Promise<T>): Promise<T | undefined> {
    if (this.#isClosed) return undefined;
    this.#isClosed = true;
    try {
      const deadline = performance.now() + patienceMs;
      while (this.quietMs < SETTLE_MS) {
        if (performance.now() > deadline) return undefined;
        await delay(LOOK_MS);
      }
      return await work();
    } finally {
      this.#open();
    }
  }

  #open(): void {
    this.#isClosed = false;
    const waiting = [...this.#held];
    this.#held.clear();
    for (const { resolve, timer } of waiting) {
      clearTimeout(timer);
      resolve(this.#letIn());
    }
  }

  #letIn(): LeaveBarrier {
    this.#writes += 1;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#writes -= 1;
      this.#lastWrite = Math.max(this.#lastWrite, performance.now());
    };
  }
}
