/** The barrier before the registry that comes along: nobody writes there while its store is collected. */
import { setTimeout as delay } from 'node:timers/promises';
import { KeyedLimit } from '../../../lib/concurrency.ts';
import type { UpstreamAddress } from '../../../proto/gateway/traffic.ts';
import type { EnteringWrite, LeaveBarrier, WriteBarrier } from '../../../proto/gateway/write-barrier.ts';

/** How long a write waits at the closed barrier, ms. */
const HELD_MS = 30_000;
/** Writes that wait at most, and those of one user. All who may write nothing share the places of one. */
const MOST_HELD = 1000;
const MOST_HELD_OF_ONE = 100;
/**
 * How long the registry may still work for a client that is gone: it writes the manifest for which it has looked at
 * the layers. ms.
 */
const SETTLE_MS = 250;
/** How long a write that is ended may take to be over, ms. */
const ENDED_MS = 5000;
/** Between two looks at whether the last write is over, ms. */
const LOOK_MS = 20;

/** One that waits. */
interface HeldWrite {
  readonly resolve: (leave: LeaveBarrier | undefined) => void;
  readonly timer: NodeJS.Timeout;
  readonly write: EnteringWrite;
  readonly giveBack: () => void;
}

/** One that was let in. */
interface LetInWrite extends EnteringWrite {
  /** Attempts at work that it kept away. */
  met: number;
}

/** Which writes are ended that keep work away. */
export interface EndedWrites {
  /** Those that met so many attempts, this one counted. */
  readonly met: number;
  /** What they are told. */
  readonly why: string;
  readonly onEnd: (write: EnteringWrite) => void;
}

/** See above. */
export class RegistryBarrier implements WriteBarrier {
  readonly address: UpstreamAddress;
  /** Says whether there is room for a write; without it there always is. */
  admit: WriteBarrier['admit'];
  readonly #heldMs: number;
  readonly #held = new Set<HeldWrite>();
  readonly #places = new KeyedLimit(MOST_HELD_OF_ONE, MOST_HELD);
  readonly #writes = new Set<LetInWrite>();
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
    return this.#writes.size > 0 ? 0 : Math.max(0, performance.now() - this.#lastWrite);
  }

  /** Whether writes wait now. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Writes that wait. */
  get held(): number {
    return this.#held.size;
  }

  enter(write: EnteringWrite = {}): LeaveBarrier | Promise<LeaveBarrier | undefined> {
    if (!this.#isClosed) return this.#letIn(write);
    const giveBack = this.#places.enter(write.owner === undefined ? '' : `of ${write.owner}`);
    if (giveBack === undefined) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#held.delete(held);
        giveBack();
        resolve(undefined);
      }, this.#heldMs);
      const held: HeldWrite = { resolve, timer, write, giveBack };
      this.#held.add(held);
    });
  }

  /**
   * Does `work` while nobody writes: closes the barrier, waits for the writes under way, and opens it when `work` is
   * over. Resolves with undefined when it is closed for something else, and, with the barrier open, when writes go on
   * for longer than `patienceMs`: then `ended` are ended, and it goes on if there are no others. Rejects as `work`
   * does.
   */
  async closedFor<T>(patienceMs: number, work: () => Promise<T>, ended?: EndedWrites): Promise<T | undefined> {
    if (this.#isClosed) return undefined;
    this.#isClosed = true;
    try {
      let deadline = performance.now() + patienceMs;
      let mayEnd = ended;
      while (this.quietMs < SETTLE_MS) {
        if (performance.now() > deadline) {
          if (mayEnd === undefined || !this.#end(mayEnd)) return undefined;
          mayEnd = undefined;
          deadline = performance.now() + ENDED_MS;
        }
        await delay(LOOK_MS);
      }
      return await work();
    } finally {
      this.#open();
    }
  }

  /** Ends those under way that it says. Returns whether these were all. */
  #end({ met, why, onEnd }: EndedWrites): boolean {
    let isAll = true;
    for (const write of [...this.#writes]) {
      write.met += 1;
      if (write.met < met || write.end === undefined) isAll = false;
      else {
        onEnd(write);
        write.end(why);
      }
    }
    return isAll;
  }

  #open(): void {
    this.#isClosed = false;
    const waiting = [...this.#held];
    this.#held.clear();
    for (const { resolve, timer, write, giveBack } of waiting) {
      clearTimeout(timer);
      giveBack();
      resolve(this.#letIn(write));
    }
  }

  #letIn({ owner, repository, end }: EnteringWrite): LeaveBarrier {
    const write: LetInWrite = { owner, repository, end, met: 0 };
    this.#writes.add(write);
    return () => {
      if (!this.#writes.delete(write)) return;
      this.#lastWrite = Math.max(this.#lastWrite, performance.now());
    };
  }
}
