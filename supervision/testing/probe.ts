/** An actor that a test stands behind. */
import { cellOf } from '../cell/context.ts';
import { ActorError } from '../common/errors.ts';
import type { AnyRef, Ref, SystemRef } from '../common/ref.ts';
import { spawnStateless } from '../system/verbs.ts';

const DEFAULT_WITHIN_MS = 1000;

/** Someone who waits for a message. */
interface ProbeWaiter<Msg> {
  matches(message: Msg): boolean;
  resolve(message: Msg): void;
}

/** Keeps the messages that it gets, in order, and lets a test wait for them. */
export class ActorProbe<Msg> {
  /** Where messages for the test are sent. */
  readonly ref: Ref<Msg>;
  readonly #kept: Msg[] = [];
  readonly #waiters = new Set<ProbeWaiter<Msg>>();

  /** Spawns the probe's actor under `parent`. Throws as `spawn`. */
  constructor(parent: AnyRef | SystemRef) {
    this.ref = spawnStateless<Msg>(parent, (message) => this.#receive(message), { kind: 'probe' });
  }

  /** All messages that came and were not taken yet, and takes them. */
  take(): Msg[] {
    return this.#kept.splice(0);
  }

  /** Takes the next message, now or when it comes. Rejects with ActorError `timeout`. */
  next(withinMs: number = DEFAULT_WITHIN_MS): Promise<Msg> {
    return this.nextWhere(() => true, withinMs);
  }

  /** Takes the first message that `matches` accepts; those before it stay. Rejects with ActorError `timeout`. */
  nextWhere(matches: (message: Msg) => boolean, withinMs: number = DEFAULT_WITHIN_MS): Promise<Msg> {
    for (const [at, message] of this.#kept.entries()) {
      if (!matches(message)) continue;
      this.#kept.splice(at, 1);
      return Promise.resolve(message);
    }
    const { clock } = cellOf(this.ref).kind.queue;
    return new Promise((resolve, reject) => {
      const timer = clock.setTimeout(() => {
        this.#waiters.delete(waiter);
        reject(new ActorError('timeout', `no such message within ${withinMs} ms; ${this.#kept.length} others came`));
      }, withinMs);
      const waiter: ProbeWaiter<Msg> = {
        matches,
        resolve: (message) => {
          timer.close();
          resolve(message);
        },
      };
      this.#waiters.add(waiter);
    });
  }

  #receive(message: Msg): void {
    for (const waiter of this.#waiters) {
      if (!waiter.matches(message)) continue;
      this.#waiters.delete(waiter);
      waiter.resolve(message);
      return;
    }
    this.#kept.push(message);
  }
}
