import { randomUUID } from 'node:crypto';
import type { Log } from '../../proto/ports/log.ts';
import type { HeldShards, ShardLease } from '../../proto/ports/placement.ts';
import type { DueTimer, TimerStore } from '../../proto/ports/timers.ts';
import { Timer } from '../cell/timer.ts';
import { nodeClock } from '../common/environment.ts';
import { ActorError } from '../common/errors.ts';
import type { Ref } from '../common/ref.ts';
import type { Entities } from '../entity/entity-kind.ts';
import type { JsonValue } from './codec.ts';
import type { PlacedKind } from './placed-kind.ts';

/** What an entity wants to be told. */
export interface WantedTimer {
  /** A later one of this name takes its place. */
  readonly name: string;
  /** When, Unix ms. */
  readonly at: number;
  /** A few hundred bytes at most. */
  readonly message: JsonValue;
}

/** The cluster, as far as its timers need it. */
interface TimerHost {
  readonly log: Log;
  held(service: string): HeldShards;
  lease(kind: { readonly service: string; readonly kind: string }, id: string): ShardLease;
}

/** Timers of one kind of entity. */
interface TimedKind {
  readonly service: string;
  /** Rejects with ActorError. */
  fire(timer: DueTimer): Promise<unknown>;
}

/** Between two looks into the store, ms. */
const LOOK_MS = 1000;
/** Timers of one look. */
const SLICE = 5000;
/** Entities that are told at once. */
const AT_ONCE = 256;
/** How long an entity may take, ms. */
const FIRE_MS = 30_000;
/** Those that were handled are ended together, ms. */
const FLUSH_MS = 100;
/** Before a timer that was not handled comes again, ms; doubled each time. */
const RETRY_MS = { least: 1000, most: 300_000 };

/**
 * Timers of placed entities that are rows: they outlive sleep, crash and process. The node that holds the entity's
 * shard reads what is due within the next second, and nothing else; it tells the entity at the time, which wakes it.
 * The row goes once the entity has said that it is done, so a timer comes at least once.
 *
 *   set --the second before its time--> read --its time--> told --done--> ended
 *                                                               |--the node is lost: the next owner reads it
 *                                                               `--failed: again, after a growing pause
 */
export class DurableTimers {
  readonly #host: TimerHost;
  readonly #store: TimerStore | undefined;
  readonly #lookMs: number;
  readonly #kinds = new Map<string, TimedKind>();
  /** Those of this look that are still to be fired, by entity and name, in order of time. */
  readonly #queued = new Map<string, { readonly timer: DueTimer; readonly due: number }>();
  /** Keys of those that were fired, until their rows are up to date. */
  readonly #fired = new Set<string>();
  /** Timers whose rows changed since the look under way began: what it finds of them may be old. */
  readonly #changed = new Set<string>();
  #handled: { readonly timer: DueTimer; readonly lease: ShardLease }[] = [];
  #telling = 0;
  #looking = false;
  #isOpen = false;
  #look: Timer | undefined;
  #next: Timer | undefined;
  #flush: Timer | undefined;

  /** Without a store no timer can be set. */
  constructor(host: TimerHost, store: TimerStore | undefined, lookMs: number = LOOK_MS) {
    this.#host = host;
    this.#store = store;
    this.#lookMs = lookMs;
  }

  /** Timers of this kind go to its entities on this node. */
  place<Msg>(kind: PlacedKind<Msg>, local: Entities<Msg> | undefined): void {
    const { timer: messageOf, service } = kind;
    if (messageOf === undefined || local === undefined) return;
    this.#kinds.set(kind.kind, {
      service,
      fire: ({ id, key, name, at, message }) =>
        local.ask(id, (done: Ref<'done'>) => messageOf({ key, name, at, message }, done), FIRE_MS),
    });
  }

  /**
   * Sets a timer of an entity, by the lease under which it read its state; resolves with its key. Rejects with
   * PlacementError `fenced`, or as the store does. Throws TypeError without a store, or if the kind has no timers.
   */
  async set<Msg>(kind: PlacedKind<Msg>, id: string, wanted: WantedTimer, lease: ShardLease): Promise<string> {
    if (kind.timer === undefined) throw new TypeError(`${kind.kind} says not what a timer tells it`);
    const { name, at, message } = wanted;
    const key = randomUUID();
    await this.#storeOf().set(lease, { service: kind.service, kind: kind.kind, id, name, key, at, message });
    this.#change({ kind: kind.kind, id, name });
    return key;
  }

  /** Ends a timer of an entity: it comes no more, unless it is under way. Rejects as `set`. */
  async cancel<Msg>(kind: PlacedKind<Msg>, id: string, name: string, lease: ShardLease): Promise<void> {
    await this.#storeOf().cancel(lease, { service: kind.service, kind: kind.kind, id, name });
    this.#change({ kind: kind.kind, id, name });
  }

  /** Begins to look. */
  start(): void {
    if (this.#store === undefined || this.#isOpen) return;
    this.#isOpen = true;
    this.#scheduleLook(0);
  }

  /** Fires no more, and writes nothing. */
  halt(): void {
    this.#isOpen = false;
    this.#queued.clear();
    for (const timer of [this.#look, this.#next, this.#flush]) timer?.cancel();
  }

  /** The same; resolves when the timers that were handled have ended. */
  async close(): Promise<void> {
    this.halt();
    await this.#endHandled().catch(this.#complain);
  }

  #storeOf(): TimerStore {
    if (this.#store === undefined) throw new TypeError('this cluster has no store of timers');
    return this.#store;
  }

  #scheduleLook(ms: number): void {
    if (!this.#isOpen) return;
    this.#look = new Timer(
      nodeClock,
      () => {
        this.#scheduleLook(this.#lookMs);
        // What is late is worked off first.
        if (!this.#looking && this.#queued.size < SLICE / 2) this.#background(this.#lookNow());
      },
      ms,
    ).unref();
  }

  async #lookNow(): Promise<void> {
    const held = [...new Set([...this.#kinds.values()].map(({ service }) => service))]
      .map((service) => ({ service, ...this.#host.held(service) }))
      .filter(({ shards }) => shards.length > 0);
    if (held.length === 0) return;
    this.#looking = true;
    this.#changed.clear();
    try {
      const due = await this.#storeOf().due(held, this.#lookMs, SLICE + this.#fired.size);
      const now = performance.now();
      for (const timer of due.sort((a, b) => a.inMs - b.inMs)) {
        const name = nameOf(timer);
        if (this.#fired.has(timer.key) || this.#changed.has(name)) continue;
        this.#queued.set(name, { timer, due: now + timer.inMs });
      }
      this.#fireDue();
    } finally {
      this.#looking = false;
    }
  }

  /** Fires what is due, as many at once as may be. */
  #fireDue(): void {
    this.#next?.cancel();
    for (const [name, { timer, due }] of this.#queued) {
      if (this.#telling >= AT_ONCE || !this.#isOpen) return;
      const left = due - performance.now();
      if (left > 0) {
        this.#next = new Timer(nodeClock, () => this.#fireDue(), Math.ceil(left)).unref();
        return;
      }
      this.#queued.delete(name);
      this.#background(this.#fire(timer));
    }
  }

  async #fire(timer: DueTimer): Promise<void> {
    const kind = this.#kinds.get(timer.kind);
    if (kind === undefined) return;
    this.#telling++;
    this.#fired.add(timer.key);
    try {
      const lease = this.#host.lease(timer, timer.id);
      await kind.fire(timer).catch((error: unknown) => {
        // Nobody is there to be told.
        if (!(error instanceof ActorError) || error.code !== 'not_found') throw error;
      });
      if (!this.#isOpen) return;
      this.#handled.push({ timer, lease });
      this.#flush ??= new Timer(nodeClock, () => this.#background(this.#endHandled()), FLUSH_MS).unref();
    } catch (error) {
      await this.#failed(timer, error).finally(() => this.#release(timer));
    } finally {
      this.#telling--;
      this.#fireDue();
    }
  }

  /** The next look finds it again, here or at the shard's next owner; what the entity failed at waits a while. */
  async #failed(timer: DueTimer, error: unknown): Promise<void> {
    if (!this.#isOpen || !(error instanceof ActorError) || error.code === 'stopped') return;
    const { kind, id, name, tries } = timer;
    this.#host.log.warn({ kind, id, timer: name, tries, err: error }, 'a timer was not handled');
    await this.#storeOf().postpone(timer, Math.min(RETRY_MS.most, RETRY_MS.least * 2 ** Math.min(tries, 30)));
  }

  async #endHandled(): Promise<void> {
    this.#flush = undefined;
    const handled = this.#handled;
    if (handled.length === 0) return;
    this.#handled = [];
    try {
      await this.#storeOf().end(handled);
    } finally {
      for (const { timer } of handled) this.#release(timer);
    }
  }

  /** The row is up to date: the next look may find it again. */
  #release(timer: DueTimer): void {
    this.#fired.delete(timer.key);
    this.#change(timer);
  }

  /** Another timer of this name, or none, is in the store. */
  #change(timer: Pick<DueTimer, 'kind' | 'id' | 'name'>): void {
    const name = nameOf(timer);
    this.#queued.delete(name);
    if (this.#looking) this.#changed.add(name);
  }

  #background(work: Promise<unknown>): void {
    work.catch(this.#complain);
  }

  /** Nothing is lost: the rows are there. */
  readonly #complain = (error: unknown): void => {
    this.#host.log.warn({ err: error }, 'timers could not be read or written');
  };
}

function nameOf({ kind, id, name }: Pick<DueTimer, 'kind' | 'id' | 'name'>): string {
  return JSON.stringify([kind, id, name]);
}
