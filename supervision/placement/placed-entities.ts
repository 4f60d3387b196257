import { setTimeout as pause } from 'node:timers/promises';
import { BusError } from '../../proto/ports/bus.ts';
import { isFenced } from '../../proto/ports/placement.ts';
import { givenUp } from '../cell/asks.ts';
import type { AskOptions, Entities } from '../entity/entity-kind.ts';
import { ActorError } from '../errors.ts';
import type { AnyRef, Ref } from '../ref.ts';
import { currentTrace, withTrace } from '../tracing.ts';
import { failed, Incoming, lostOnTheWay, OpenAsks, Outgoing, unlessAborted, unreadable } from './asks.ts';
import type { ClusterContext, PlacedKind } from './placed-kind.ts';
import { shardOf } from './shards.ts';
import type { EntityPlace } from './view.ts';
import { type Answer, type AskEnvelope, packAsk, packCancel, packTell, readAnswer, type TellEnvelope } from './wire.ts';

/** A kind with its messages forgotten: what the post from other nodes is delivered to. */
export interface PlacedInbound {
  readonly kind: string;
  readonly service: string;
  isOf<Msg>(kind: PlacedKind<Msg>): this is PlacedEntities<Msg>;
  release(matches: (id: string) => boolean): Promise<void>;
  receive(envelope: TellEnvelope): void;
  answer(envelope: AskEnvelope, signal?: AbortSignal): Promise<Answer>;
  stillOwnedAt(envelope: AskEnvelope): boolean;
  flush(): void;
  close(): void;
}

/** Tells that wait for an owner, of one kind; the newest beyond it are lost. */
const MAX_PARKED = 1000;
/** How long they wait, ms. */
const PARKED_MS = 10_000;
/** A tell that finds its entity moved is passed on so often. */
const MAX_HOPS = 2;
/** An ask waits so long for an owner, ms: longer than a take-over takes. */
const OWNERLESS_MS = 10_000;
const FIRST_PAUSE_MS = 10;
/** Of the nodes that wait for the end of one's lease so many look at a time: the first to see it tells the others. */
const WATCHERS = 4;
const LONGEST_PAUSE_MS = 200;

interface Parked<Msg> extends Pick<TellEnvelope, 'id' | 'hops' | 'trace'> {
  readonly message: Msg;
  readonly until: number;
}

/** What is known of an ask wherever it goes. */
interface AskTerms {
  readonly deadline: number;
  readonly isSafe: boolean;
  readonly signal: AbortSignal | undefined;
}

/** An ask, and how it was sent so far. */
interface AskAttempt extends AskTerms {
  readonly ask: number;
  /** When it was first sent to another node. */
  sent: number | undefined;
  /** The owner that may have got it and did not answer. */
  unanswered: EntityPlace | undefined;
}

/**
 * The entities of a kind, whichever node they are on.
 *
 * tell: at most once. Without an owner it waits a while, in order; where the shard has just moved it is passed on.
 * ask: sent again, within its deadline, while nobody owns the shard and when the owner says that it does not. Without
 * an answer it is sent again to the same owner under the same epoch only, which remembers it; when the shard has moved
 * since, nobody knows whether it was handled: one that is safe begins afresh, any other fails `stopped` with `begun`.
 * `make` may be called several times.
 */
export class PlacedEntities<Msg> implements Entities<Msg>, PlacedInbound {
  readonly #cluster: ClusterContext;
  readonly #kind: PlacedKind<Msg>;
  #local: Entities<Msg> | undefined;
  readonly #parked = new Map<number, Parked<Msg>[]>();
  readonly #open: OpenAsks;
  #waiting = 0;
  #closed = false;

  constructor(cluster: ClusterContext, kind: PlacedKind<Msg>, local: Entities<Msg> | undefined) {
    this.#cluster = cluster;
    this.#kind = kind;
    this.#local = local;
    this.#open = new OpenAsks(
      (shard) => cluster.node.ownerOf(kind.service, shard),
      (node) => cluster.node.view.lives(node),
    );
  }

  get kind(): string {
    return this.#kind.kind;
  }

  get service(): string {
    return this.#kind.service;
  }

  get ref(): AnyRef {
    if (this.#local === undefined) throw new TypeError(`no ${this.#kind.kind} lives on this node`);
    return this.#local.ref;
  }

  awake(): number {
    return this.#local?.awake() ?? 0;
  }

  ids(): string[] {
    return this.#local?.ids() ?? [];
  }

  release(matches: (id: string) => boolean): Promise<void> {
    return this.#local?.release(matches) ?? Promise.resolve();
  }

  tell(id: string, message: Msg): void {
    this.#tell(id, message, 0);
  }

  ask<Reply>(
    id: string,
    make: (replyTo: Ref<Reply>) => Msg,
    timeoutMs: number,
    options: AskOptions = {},
  ): Promise<Reply> {
    const { isSafe = false, signal } = options;
    const shard = this.#shardOf(id);
    const terms = { deadline: performance.now() + timeoutMs, isSafe, signal };
    if (this.#local !== undefined && this.#serves(shard)) {
      return this.#local.ask(id, make, timeoutMs, options).catch((error: unknown) => {
        if (!this.#mayMove(error, shard, isSafe)) throw error;
        return this.#askAround(id, shard, make, terms);
      });
    }
    return this.#askAround(id, shard, make, terms);
  }

  /** The view is another: sends what waited for an owner, if there is one, and waits no more for former ones. */
  flush(): void {
    this.#open.look();
    if (this.#waiting === 0) return;
    const now = performance.now();
    for (const [shard, parked] of [...this.#parked]) {
      const owned = this.#cluster.node.ownerOf(this.#kind.service, shard) !== undefined;
      if (!owned && parked.every(({ until }) => until > now)) continue;
      this.#parked.delete(shard);
      this.#waiting -= parked.length;
      for (const { id, message, hops, until, trace } of parked) {
        if (until > now) withTrace(trace, () => this.#tell(id, message, hops, until));
        else this.#lost(id);
      }
    }
  }

  /** Whether these are the entities of that very kind. */
  isOf<Other>(kind: PlacedKind<Other>): this is PlacedEntities<Other> {
    return Object.is(kind, this.#kind);
  }

  /** Those on this node are others now: their actor was restarted. */
  restart(local: Entities<Msg> | undefined): void {
    this.#local = local;
  }

  /** Forgets what waits, and sends nothing any more. */
  close(): void {
    this.#closed = true;
    this.#parked.clear();
    this.#waiting = 0;
  }

  /** A tell from another node. */
  receive({ id, message, from, hops }: TellEnvelope): void {
    if (hops > MAX_HOPS) this.#lost(id);
    else this.#tell(id, this.#kind.codec.decode(message, this.#cluster.refs), hops, undefined, from);
  }

  /** Whether an ask that was sent before can be judged here: under another epoch it may have been handled elsewhere. */
  stillOwnedAt({ id, epoch }: AskEnvelope): boolean {
    return epoch === undefined || this.#cluster.node.epochOf(this.#kind.service, this.#shardOf(id)) === epoch;
  }

  /** Asks the entity here for another node. Never rejects. */
  async answer({ id, from, message, left }: AskEnvelope, signal?: AbortSignal): Promise<Answer> {
    const shard = this.#shardOf(id);
    if (this.#local === undefined || !this.#serves(shard)) return { type: 'moved' };
    const incoming = new Incoming(this.#cluster.refs, from);
    let undecodable: unknown;
    try {
      const reply = await this.#local.ask<unknown>(
        id,
        (replyTo) => {
          try {
            return this.#kind.codec.decode(message, incoming.with(replyTo));
          } catch (error) {
            undecodable = error;
            throw error;
          }
        },
        // What waits beyond the asker's deadline is not handled.
        Math.max(1, left),
        { signal },
      );
      return { type: 'reply', reply: incoming.encodeReply(reply) };
    } catch (error) {
      if (undecodable !== undefined) {
        this.#cluster.complain(this.#kind.kind, undecodable, 'cannot read a message of another node');
        return failed(unreadable(undecodable));
      }
      if (this.#mayMove(error, shard)) return { type: 'moved' };
      return failed(asActorError(error));
    }
  }

  #shardOf(id: string): number {
    return shardOf(this.#kind.kind, id, this.#cluster.node.shards);
  }

  #serves(shard: number): boolean {
    return this.#cluster.node.serves(this.#kind.service, shard);
  }

  /** Whether a local ask failed because the shard moves: then it had no effect, or is safe. */
  #mayMove(error: unknown, shard: number, isSafe = false): boolean {
    if (isFenced(error)) return true;
    return error instanceof ActorError && error.code === 'stopped' && (isSafe || !error.begun) && !this.#serves(shard);
  }

  #tell(id: string, message: Msg, hops: number, until?: number, from?: string): void {
    if (this.#closed) return;
    const shard = this.#shardOf(id);
    const parked = this.#parked.get(shard);
    // Those that wait were there first.
    if (parked === undefined) {
      if (this.#local !== undefined && this.#serves(shard)) {
        this.#local.tell(id, message);
        return;
      }
      const place = this.#cluster.node.ownerOf(this.#kind.service, shard);
      // Whoever passed it on to us thinks that we are the owner: neither of us is up to date.
      if (place !== undefined && place.node !== this.#cluster.node.self.id && place.node !== from) {
        this.#post(place.node, id, message, hops);
        return;
      }
    }
    this.#cluster.node.look();
    if (this.#waiting >= MAX_PARKED) {
      this.#lost(id);
      return;
    }
    const entry = { id, message, hops, until: until ?? performance.now() + PARKED_MS, trace: currentTrace() };
    this.#waiting++;
    if (parked === undefined) this.#parked.set(shard, [entry]);
    else parked.push(entry);
  }

  #post(node: string, id: string, message: Msg, hops: number): void {
    const { kind, codec } = this.#kind;
    const from = this.#cluster.node.self.id;
    const wire = codec.encode(message, this.#cluster.refs.to(node));
    this.#cluster.send(
      node,
      'tell',
      packTell({ kind, id, from, message: wire, hops: hops + 1, trace: currentTrace() }),
    );
  }

  #lost(id: string): void {
    this.#cluster.log.debug({ kind: this.#kind.kind, id }, 'a message for an entity without an owner is lost');
  }

  async #askAround<Reply>(
    id: string,
    shard: number,
    make: (replyTo: Ref<Reply>) => Msg,
    terms: AskTerms,
  ): Promise<Reply> {
    const { node } = this.#cluster;
    const { deadline, isSafe, signal } = terms;
    let attempt = this.#attempt(terms);
    let owned = performance.now();
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const now = performance.now();
      const left = deadline - now;
      const place = node.ownerOf(this.#kind.service, shard);
      let isAway = false;
      if (place !== undefined) owned = now;
      if (left <= 0 || now - owned > OWNERLESS_MS || this.#closed) throw this.#tooLate(id, attempt);
      if (signal?.aborted) throw givenUp(`${this.#kind.kind} ${id}`, signal);
      const { unanswered } = attempt;
      if (unanswered !== undefined && (place?.node !== unanswered.node || place.epoch !== unanswered.epoch)) {
        if (!isSafe) throw lostOnTheWay();
        attempt = this.#attempt(terms);
      }
      if (place !== undefined && place.node !== node.self.id) {
        const reply = await this.#askThere<Reply>(place, id, make, attempt);
        if (reply === 'lost') attempt = this.#attempt(terms);
        else if (reply === 'away') isAway = true;
        else if (reply !== undefined) return reply.value;
      } else if (this.#local !== undefined && this.#serves(shard)) {
        try {
          return await this.#local.ask(id, make, left, { signal });
        } catch (error) {
          if (!this.#mayMove(error, shard, isSafe)) throw error;
        }
      }
      if (!isAway || Math.random() * node.view.nodes.size < WATCHERS) node.look();
      await pause(Math.min(pauseMs, left));
    }
  }

  #attempt({ deadline, isSafe, signal }: AskTerms): AskAttempt {
    return { ask: this.#cluster.nextAsk(), deadline, isSafe, signal, sent: undefined, unanswered: undefined };
  }

  /**
   * Sends an ask to its owner. Undefined when it has to be sent again, `away` when nobody is there to get it, `lost`
   * when a safe one has to be sent as another.
   */
  async #askThere<Reply>(
    place: EntityPlace,
    id: string,
    make: (replyTo: Ref<Reply>) => Msg,
    attempt: AskAttempt,
  ): Promise<{ readonly value: Reply } | 'away' | 'lost' | undefined> {
    const { bus, node, refs, resendMs } = this.#cluster;
    const now = performance.now();
    attempt.sent ??= now;
    const outgoing = new Outgoing<Reply>(refs.to(place.node));
    const left = attempt.deadline - now;
    const envelope = packAsk({
      kind: this.#kind.kind,
      id,
      from: node.self.id,
      ask: attempt.ask,
      message: this.#kind.codec.encode(make(outgoing.replyTo), outgoing),
      age: Math.floor(now - attempt.sent),
      epoch: attempt.unanswered?.epoch,
      left: Math.ceil(left),
      isCancellable: attempt.signal !== undefined,
      trace: currentTrace(),
    });
    let data: Uint8Array;
    try {
      const waitMs = Math.max(1, Math.min(left, resendMs));
      const asking = unlessAborted(
        bus.request(this.#cluster.subject(place.node, 'ask'), envelope, waitMs),
        attempt.signal,
      );
      data = await this.#open.answer(this.#shardOf(id), place, attempt.isSafe, asking);
    } catch (error) {
      if (attempt.signal?.aborted) {
        this.#cluster.send(place.node, 'cancel', packCancel({ from: node.self.id, ask: attempt.ask }));
        return undefined;
      }
      if (!(error instanceof BusError)) throw error;
      // It did not get there this time; an earlier time it may have.
      if (error.code === 'no_responders') return 'away';
      if (error.code === 'too_large') throw new ActorError('overloaded', error.message, { cause: error });
      if (error.code === 'closed') throw new ActorError('stopped', error.message, { cause: error, begun: true });
      attempt.unanswered = place;
      return undefined;
    }
    const answer = readAnswer(data, this.#cluster.causes);
    if (answer.type === 'error') {
      if (attempt.isSafe && answer.error.code === 'stopped' && answer.error.begun) return 'lost';
      throw answer.error;
    }
    if (answer.type === 'reply') return outgoing.decodeReply(answer.reply, refs);
    attempt.unanswered = undefined;
    return undefined;
  }

  #tooLate(id: string, { unanswered }: AskAttempt): ActorError {
    const why = unanswered === undefined ? 'has no owner' : 'did not reply in time';
    return new ActorError('timeout', `${this.#kind.kind} ${id} ${why}`);
  }
}

function asActorError(error: unknown): ActorError {
  return error instanceof ActorError ? error : new ActorError('crashed', 'the ask failed', { cause: error });
}
