/**
 * One client of the monitor's streams. It is sent the newest snapshot of each kind, whenever it can take it, and holds
 * no bytes of its own: what waits for a slow reader is only marked as waiting.
 */
import type { Client, Subscription } from './broadcaster.ts';
import type { SnapshotKind } from './snapshots.ts';

/** What a client is sent. */
export type Push = SnapshotKind | 'ping';

// What is true of a client, as bits of one small integer: a field each would weigh more than the rest of it.
const MARKS = { cluster: 1, pods: 2, ping: 4 } as const;
/** Something waits to be written. */
const WAITING = MARKS.cluster | MARKS.pods | MARKS.ping;
/** It takes nothing before `drain`: it was not opened yet, or its reader is slow. */
const FULL = 8;
/** The broadcaster knows it. */
const INSIDE = 16;

/** What event streams and sockets share; each writes in its own form. */
export abstract class Subscriber implements Client {
  readonly subscription: Subscription;
  place = -1;
  #flags = FULL;

  constructor(subscription: Subscription) {
    this.subscription = subscription;
  }

  /** Which number counts it. */
  protected abstract readonly counted: 'streams' | 'sockets';
  /** Writes to the client. Returns false when it is to be left alone until `drain`. */
  protected abstract write(what: Push): boolean;
  abstract end(): void;

  /** Whether the broadcaster knows it. */
  protected get isInside(): boolean {
    return (this.#flags & INSIDE) !== 0;
  }

  /** From here on the broadcaster tells it of snapshots. */
  protected enter(): void {
    const { broadcaster } = this.subscription;
    this.#flags |= INSIDE;
    broadcaster.numbers[this.counted] += 1;
    broadcaster.add(this);
  }

  /** Nothing is sent any more. Again does nothing. */
  protected leave(): void {
    if (!this.isInside) return;
    const { broadcaster } = this.subscription;
    this.#flags &= ~INSIDE;
    broadcaster.numbers[this.counted] -= 1;
    broadcaster.remove(this);
  }

  tell(kind: SnapshotKind): void {
    if ((this.#flags & MARKS[kind]) !== 0) this.subscription.broadcaster.numbers.skipped += 1;
    this.#send(MARKS[kind]);
  }

  ping(): void {
    this.#send(MARKS.ping);
  }

  /** It can take something. */
  drain(): void {
    this.#flags &= ~FULL;
    this.#send(0);
  }

  /** Writes what waits, that too, as long as the reader takes it. */
  #send(marks: number): void {
    this.#flags |= marks;
    while ((this.#flags & (FULL | INSIDE)) === INSIDE && (this.#flags & WAITING) !== 0) {
      const what = (this.#flags & MARKS.cluster) !== 0 ? 'cluster' : (this.#flags & MARKS.pods) !== 0 ? 'pods' : 'ping';
      this.#flags &= ~MARKS[what];
      if (!this.write(what)) this.#flags |= FULL;
    }
  }
}
