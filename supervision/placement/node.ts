import { setTimeout as pause } from 'node:timers/promises';
import { errorText } from '../../lib/errors.ts';
import { withTimeout } from '../../lib/waiting.ts';
import type { NodeInfo, Shard, ShardLease, ShardState } from '../../proto/ports/placement.ts';
import { type Held, HeldLeases, keyOf } from './held-leases.ts';
import { type NodeOptions, TIMINGS, type Timings } from './node-options.ts';
import { DEFAULT_SHARDS } from './shards.ts';
import { ClusterView, type EntityPlace } from './view.ts';

/**
 * Shards stopped and released together: of one that is slow to stop, the others in its batch wait. Each batch looks at
 * all entities that are awake, so many shards make larger batches, not more of them.
 */
const BATCH = 32;
const BATCHES = 8;
/** Shards in one statement: a beat, which uses the same connection, does not wait for long. */
const AT_ONCE = 2048;

/**
 * One node's part in placement.
 *
 *   out -- good beat --> in: holds shards -- no good beat within ttl - margin (our clock) --> out, all lost
 *                         | each beat: takes what is free and should be ours, hands over what should not
 *                         | drain, or not well: hands over everything; a service is down: hands over its shards
 *
 *   a shard: free -- take --> serving -- should be another's --> leaving: entities stop -- release --> free
 *                                |-- its epoch is over, or the node is out --> lost
 *
 * Time counts from the start of the last good beat, so the lease in the store always lasts longer than we believe. A
 * process that was frozen finds out at its first question, before any timer fires.
 */
export class PlacementNode {
  readonly self: NodeInfo;
  readonly shards: number;
  readonly view: ClusterView;
  readonly #options: NodeOptions;
  readonly #timings: Timings;
  readonly #now: () => number;
  readonly #held: HeldLeases;
  readonly #giving = new Set<Held>();
  readonly #taking = new Set<string>();
  #servingUntil = Number.NEGATIVE_INFINITY;
  /** Counts how often everything was lost: what was begun before is not believed. */
  #life = 0;
  /** Just back: others may be coming back, too, so look once more before taking shards. */
  #recovering = false;
  #draining = false;
  /** An operator asked for it, who may take it back. */
  #drainAsked = false;
  /** Services that are down here: their shards are for others. */
  readonly #down = new Set<string>();
  #beating: Promise<void> | undefined;
  #lastBeat = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #lapse: NodeJS.Timeout | undefined;
  #running = false;
  readonly #work = new Set<Promise<unknown>>();

  constructor(options: NodeOptions) {
    this.#options = options;
    this.self = { weight: 1, ...options.self, draining: false };
    this.shards = options.shards ?? DEFAULT_SHARDS;
    this.#timings = { ...TIMINGS, ...options.timings };
    this.#now = options.now ?? (() => performance.now());
    this.view = new ClusterView(this.self, this.shards);
    this.#held = new HeldLeases(this.self.roles, this.shards);
  }

  /** Whether messages for this shard are for us. */
  serves(service: string, shard: number): boolean {
    const held = this.#held.get(service, shard);
    return held !== undefined && !held.leaving && this.#alive();
  }

  /** The epoch under which we hold a shard, also while it is being handed over; undefined when we do not. */
  epochOf(service: string, shard: number): number | undefined {
    const held = this.#held.get(service, shard);
    return held !== undefined && this.#alive() ? held.epoch : undefined;
  }

  /** Who owns a shard, as far as is known here. */
  ownerOf(service: string, shard: number): EntityPlace | undefined {
    const epoch = this.epochOf(service, shard);
    if (epoch !== undefined) return { node: this.self.id, epoch };
    const place = this.view.placeOf(service, shard);
    return place?.node === this.self.id ? undefined : place;
  }

  /** How many shards we hold. */
  get holding(): number {
    return this.#held.size;
  }

  /** The shards of a service that we serve, ascending. */
  serving(service: string): number[] {
    if (!this.#alive()) return [];
    const serving = [...this.#held.of(service)].filter(({ leaving }) => !leaving);
    return serving.map(({ shard }) => shard).sort((a, b) => a - b);
  }

  /** Gives the shards of a service away at once, and takes none of it until `restore`. */
  withdraw(service: string): void {
    this.#down.add(service);
    for (const held of this.#held.of(service)) held.leaving = true;
    this.look();
  }

  /** The service is up again here. */
  restore(service: string): void {
    if (this.#down.delete(service)) this.look();
  }

  /** Begins to beat. Resolves after the first beat that was good, and after what it found free was taken. */
  async start(): Promise<void> {
    this.#running = true;
    while (this.#running) {
      await this.beat();
      if (this.#alive()) break;
      await pause(this.#timings.beatMs / 3);
    }
    await Promise.all(this.#work);
    this.#schedule(this.#timings.beatMs);
  }

  /** Looks early: something is not where it was thought to be. */
  look(): void {
    if (this.#running) this.#schedule(Math.max(0, this.#lastBeat + this.#timings.lookMs - this.#now()));
  }

  /** Hands over everything and takes nothing any more. Resolves when nothing is held; `leave` comes next. */
  async drain(): Promise<void> {
    this.#draining = true;
    await this.beat();
    while (this.#alive() && this.holding > 0) {
      await Promise.all(this.#work);
      if (this.holding === 0 || !this.#running) break;
      await pause(this.#timings.lookMs);
      await this.beat();
    }
  }

  /** Ends the lease: what is still held is lost. Resolves when the store knows, or could not be told. */
  async leave(): Promise<void> {
    this.halt();
    await this.#beating;
    this.#drop('the node leaves');
    await Promise.all(this.#work);
    await this.#options.store
      .leave(this.self.id)
      .catch((error: unknown) => this.#warn(error, 'could not end the lease'));
  }

  /** Ends all timers and tells nobody: the lease runs out by itself. */
  halt(): void {
    this.#running = false;
    clearTimeout(this.#timer);
    clearTimeout(this.#lapse);
  }

  /**
   * One beat, and then what follows from it in the background. Never rejects; of two at once the second is the first.
   */
  beat(): Promise<void> {
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = undefined;
    });
    return this.#beating;
  }

  async #beat(): Promise<void> {
    const { store, hooks } = this.#options;
    const started = this.#now();
    this.#lastBeat = started;
    const roles = this.self.roles.filter((role) => !this.#down.has(role));
    const told = !this.#draining && !this.#drainAsked && this.#options.isWell?.() !== false;
    try {
      const answer = store.beat({ ...this.self, roles, draining: !told }, this.#timings.ttlMs, this.view.known);
      const { answerMs } = this.#timings;
      const view = await withTimeout(answer, answerMs, () => {
        throw new Error(`no answer within ${answerMs} ms`);
      });
      // Late is lost: others may have taken what we had, and their epochs are not in this view.
      const wasAlive = this.#alive();
      const until = started + this.#timings.ttlMs - this.#timings.marginMs;
      if (until <= this.#now()) return;
      this.#servingUntil = until;
      const asked = view.drainAsked === true;
      if (asked !== this.#drainAsked) this.look();
      this.#drainAsked = asked;
      // Who is to take shards again tells the others first.
      const gone = this.view.update(view, told && !asked ? roles : []);
      this.#reckon(view.shards);
      hooks.onView?.(gone);
      if (this.#running) this.#armLapse();
      if (!wasAlive && this.#recovering) {
        this.#recovering = false;
        this.look();
        return;
      }
    } catch (error) {
      this.#warn(error, 'a beat failed');
      return;
    }
    this.#background(this.#giveAway());
    this.#background(this.#takeFree());
  }

  /** Whether our lease lasts; if it does no more, everything is lost here and now. */
  #alive(): boolean {
    if (this.#now() < this.#servingUntil) return true;
    if (this.#servingUntil !== Number.NEGATIVE_INFINITY) this.#drop('the lease could not be renewed in time');
    return false;
  }

  #drop(why: string): void {
    this.#servingUntil = Number.NEGATIVE_INFINITY;
    this.#life++;
    this.#recovering = true;
    this.#lose([...this.#held.all()], why);
  }

  /** Lets go of what turned out not to be ours. */
  #reckon(changed: readonly ShardState[]): void {
    const outdated = changed.flatMap(({ service, shard, epoch }) => {
      const held = this.#held.get(service, shard);
      return held !== undefined && held.epoch < epoch ? [held] : [];
    });
    this.#lose(outdated, 'another node took it');
  }

  #lose(lost: readonly Held[], why: string): void {
    if (lost.length === 0) return;
    for (const held of lost) this.#held.remove(held);
    this.#options.log.warn({ node: this.self.id, shards: lost.length, why }, 'shards lost');
    this.#background(this.#options.hooks.stopEntities(lost));
    this.#options.hooks.onLost?.(lost, why);
  }

  async #takeFree(): Promise<void> {
    const life = this.#life;
    const wanted = this.#wanted();
    for (const shard of wanted) this.#taking.add(keyOf(shard));
    try {
      for (let at = 0; at < wanted.length; at += AT_ONCE) {
        const leases = await this.#options.store.take(this.self.id, wanted.slice(at, at + AT_ONCE), this.shards);
        // What was granted to a former life is ours in the store only; it is taken anew, under a new epoch.
        if (!this.#alive() || life !== this.#life) return;
        const taken = leases.filter((lease) => this.#took(lease));
        if (taken.length > 0) this.#options.hooks.onAcquired?.(taken);
      }
    } catch (error) {
      this.#warn(error, 'could not take shards');
    } finally {
      for (const shard of wanted) this.#taking.delete(keyOf(shard));
    }
  }

  /** Holds what was granted, unless it is outdated already. */
  #took(lease: ShardLease): boolean {
    const known = this.view.state(lease.service, lease.shard);
    if (known !== undefined && known.epoch > lease.epoch) return false;
    this.view.note({ ...lease, owner: this.self.id });
    return this.#held.add({ ...lease, leaving: this.#down.has(lease.service) });
  }

  /** Free shards that should be ours. */
  #wanted(): Shard[] {
    const wanted: Shard[] = [];
    for (const service of this.self.roles) {
      if (this.#down.has(service)) continue;
      for (const shard of this.view.own(service)) {
        if (this.#held.get(service, shard) !== undefined) continue;
        const place = this.view.placeOf(service, shard);
        if ((place === undefined || place.node === this.self.id) && !this.#taking.has(keyOf({ service, shard }))) {
          wanted.push({ service, shard });
        }
      }
    }
    return wanted;
  }

  /** Hands over what should be another's. */
  async #giveAway(): Promise<void> {
    const leaving: Held[] = [];
    for (const held of this.#held.all()) {
      const isOurs = this.view.assignment(held.service)[held.shard] === this.self.id;
      if ((held.leaving || !isOurs) && !this.#giving.has(held)) leaving.push(held);
    }
    for (const held of leaving) {
      held.leaving = true;
      this.#giving.add(held);
    }
    const size = Math.max(BATCH, Math.ceil(leaving.length / BATCHES));
    const batches: Promise<void>[] = [];
    for (let at = 0; at < leaving.length; at += size) batches.push(this.#handOver(leaving.slice(at, at + size)));
    batches.push(this.#release(this.#orphans()));
    await Promise.all(batches);
  }

  /** Shards that are ours in the store only, by a call of which we never got the answer, and should be another's. */
  #orphans(): ShardLease[] {
    const orphans: ShardLease[] = [];
    for (const service of this.self.roles) {
      for (const shard of this.view.owned(service)) {
        const state = this.view.state(service, shard);
        if (state === undefined || this.#held.get(service, shard) !== undefined) continue;
        if (this.view.assignment(service)[shard] === this.self.id || this.#taking.has(keyOf(state))) continue;
        orphans.push({ service, shard, epoch: state.epoch });
      }
    }
    return orphans;
  }

  async #handOver(batch: readonly Held[]): Promise<void> {
    try {
      await this.#options.hooks.stopEntities(batch);
      // Some may have been lost meanwhile.
      await this.#release(batch.filter((held) => this.#held.has(held)));
    } finally {
      for (const held of batch) this.#giving.delete(held);
    }
  }

  async #release(leases: readonly ShardLease[]): Promise<void> {
    for (let at = 0; at < leases.length; at += AT_ONCE) await this.#releaseSome(leases.slice(at, at + AT_ONCE));
  }

  async #releaseSome(leases: readonly ShardLease[]): Promise<void> {
    let left: ShardLease[];
    try {
      left = await this.#options.store.release(this.self.id, leases);
    } catch (error) {
      this.#warn(error, 'could not release shards');
      return;
    }
    const busy = new Set(left.map(keyOf));
    const freed = leases.filter((lease) => !busy.has(keyOf(lease)));
    for (const lease of freed) {
      const held = this.#held.get(lease.service, lease.shard);
      if (held?.epoch === lease.epoch) this.#held.remove(held);
      this.view.note({ ...lease, epoch: lease.epoch + 1, owner: undefined });
    }
    const next = new Set(freed.map(({ service, shard }) => this.view.assignment(service)[shard]));
    const ids = [...next].filter((id): id is string => id !== undefined && id !== this.self.id);
    if (ids.length > 0) this.#options.hooks.onFreed?.(ids);
    if (left.length > 0) this.look();
  }

  #background(work: Promise<unknown>): void {
    const task = work
      .catch((error: unknown) => this.#warn(error, 'placement failed'))
      .finally(() => this.#work.delete(task));
    this.#work.add(task);
  }

  #schedule(ms: number): void {
    if (!this.#running) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const { beatMs } = this.#timings;
      // Before the beat itself: one that hangs must not be the last.
      this.#schedule(beatMs * (0.9 + Math.random() / 5));
      void this.beat().then(() => {
        if (!this.#alive()) this.#schedule(beatMs / 3);
      });
    }, ms).unref();
  }

  #armLapse(): void {
    clearTimeout(this.#lapse);
    this.#lapse = setTimeout(() => this.#alive(), Math.max(1, this.#servingUntil - this.#now() + 1)).unref();
  }

  #warn(error: unknown, message: string): void {
    this.#options.log.warn({ node: this.self.id, error: errorText(error, 'unknown') }, message);
  }
}
