import { setTimeout as pause } from 'node:timers/promises';
import { errorText } from '../../lib/errors.ts';
import { BusError, type BusMessage } from '../../proto/ports/bus.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import {
  type HeldShards,
  type LeaseStore,
  type NodeSelf,
  PlacementError,
  type Shard,
  type ShardLease,
} from '../../proto/ports/placement.ts';
import type { TimerStore } from '../../proto/ports/timers.ts';
import type { Entities } from '../entity/entity-kind.ts';
import type { AnyRef, SystemRef } from '../ref.ts';
import { spawn, stop, stopped } from '../verbs.ts';
import { AskDeduplicator } from './ask-deduplicator.ts';
import { AskCancels, failed, lostOnTheWay, tooLarge, unreadable } from './asks.ts';
import { DurableTimers } from './durable-timers.ts';
import { CROWD, GoneNodes } from './gone-nodes.ts';
import { PlacementNode } from './node.ts';
import { type NodeBus, TIMINGS, type Timings } from './node-options.ts';
import { PlacedEntities, type PlacedInbound } from './placed-entities.ts';
import type { ClusterContext, PlacedKind } from './placed-kind.ts';
import { inTrace, RefExchange } from './refs.ts';
import { shardOf } from './shards.ts';
import { type CauseCodec, packAnswer, readAsk, readCancel, readRefNews, readTell } from './wire.ts';

export interface ClusterOptions {
  /** What the cluster's own actors live under. */
  readonly parent: AnyRef | SystemRef;
  readonly self: NodeSelf;
  readonly store: LeaseStore;
  readonly bus: NodeBus;
  readonly log: Log;
  /** Without it, entities set no timers that outlive them. */
  readonly timers?: TimerStore;
  /** Between two looks for timers that are due, ms. Default 1,000. */
  readonly timersEveryMs?: number;
  /** Shards of each service; the same on all nodes, for ever. */
  readonly shards?: number;
  readonly timings?: Partial<Timings>;
  /** An ask without an answer is sent again after this, ms. Default 5,000. */
  readonly resendMs?: number;
  /** First token of the subjects. Default `node`. */
  readonly prefix?: string;
  /** Errors that cross as themselves; the same on all nodes. */
  readonly causes?: CauseCodec;
}

/** Problems with messages of others are logged once a minute for each sender. */
const COMPLAIN_EVERY_MS = 60_000;
const MAX_COMPLAINTS = 1000;
/** What a beat that was asked for takes, with its pause before, and some. */
const LEARN_MS = 500;

/**
 * A process as a member of the cluster: its shards (node.ts), the entities placed by them (placed-entities.ts), and the
 * post between nodes:
 *
 *   <prefix>.<node>.ask    an ask for an entity, answered by reply         .tell  a message for an entity
 *   <prefix>.<node>.cancel the asker of an ask gave up
 *   <prefix>.<node>.ref    a message for a ref that left this node         .hold, .ended   who holds it, and its end
 *   <prefix>.<node>.look   something has changed: beat early               .echo  to oneself: is the bus there?
 */
export class Cluster implements ClusterContext {
  readonly node: PlacementNode;
  readonly refs: RefExchange;
  readonly bus: NodeBus;
  readonly log: Log;
  readonly resendMs: number;
  readonly causes: CauseCodec | undefined;
  /** Timers of its entities that outlive their process. */
  readonly timers: DurableTimers;
  readonly #prefix: string;
  readonly #inbound = new Map<string, PlacedInbound>();
  readonly #answered = new AskDeduplicator(() => performance.now());
  readonly #parent: AnyRef;
  readonly #post: Ending;
  /** Answers that are being made for others. */
  readonly #answers = new Set<Promise<unknown>>();
  readonly #cancels = new AskCancels();
  readonly #acquired = new Map<string, Set<() => void>>();
  readonly #complaints = new Map<string, number>();
  readonly #gone: GoneNodes;
  readonly #beatMs: number;
  readonly #echoMs: number;
  #echoed = performance.now();
  /** Echoes in a row that did not come. */
  #missed = 0;
  #echoing = false;
  #closed = false;
  #nextAsk = 1;

  constructor(options: ClusterOptions) {
    const { self, store, bus, log, shards, timings } = options;
    this.bus = bus;
    this.log = log;
    this.resendMs = options.resendMs ?? 5000;
    this.causes = options.causes;
    this.timers = new DurableTimers(this, options.timers, options.timersEveryMs);
    this.#prefix = options.prefix ?? 'node';
    this.#parent = spawn<null, never>(options.parent, (state) => state, { kind: 'placement' });
    this.refs = new RefExchange({ parent: this.#parent, self: self.id, log, send: this.send.bind(this) });
    this.#beatMs = timings?.beatMs ?? TIMINGS.beatMs;
    this.#echoMs = 2 * this.#beatMs;
    this.node = new PlacementNode({
      self,
      store,
      log,
      ...(shards === undefined ? {} : { shards }),
      ...(timings === undefined ? {} : { timings }),
      isWell: () => this.#isReached(),
      hooks: {
        stopEntities: (given) => this.#stopEntities(given),
        onAcquired: (leases) => {
          this.#flush();
          for (const service of new Set(leases.map((lease) => lease.service)))
            for (const handler of this.#acquired.get(service) ?? []) handler();
        },
        onFreed: (ids) => {
          for (const id of ids) this.send(id, 'look', new Uint8Array());
        },
        onView: (gone) => {
          this.#cancels.onGone(gone);
          this.#gone.onView(gone);
          this.refs.onView(gone, (id) => this.node.view.lives(id));
          this.#flush();
          void this.#echo();
        },
      },
    });
    this.#gone = new GoneNodes(this.node.view, (id, news) => this.send(id, 'look', news));
    this.#post = bus.subscribe(`${this.#prefix}.${self.id}.>`, (message) => this.#receive(message), {
      drains: true,
    });
  }

  /** Begins to beat; resolves once this node holds what was free. Place all kinds before. */
  async join(): Promise<void> {
    this.#echoed = performance.now();
    await this.node.start();
    this.timers.start();
  }

  /**
   * The entities of a kind, wherever they are. With `local` this node may hold some; without, it only sends. A second
   * call for the same kind takes the place of the first (its actor was restarted); what waits for an owner goes on.
   */
  place<Msg>(kind: PlacedKind<Msg>, local: Entities<Msg>): Entities<Msg>;
  place<Msg>(kind: PlacedKind<Msg>): Pick<Entities<Msg>, 'tell' | 'ask'>;
  place<Msg>(kind: PlacedKind<Msg>, local?: Entities<Msg>): Pick<Entities<Msg>, 'tell' | 'ask'> {
    this.timers.place(kind, local);
    const former = this.#inbound.get(kind.kind);
    if (former?.isOf(kind)) {
      former.restart(local);
      return former;
    }
    const placed = new PlacedEntities<Msg>(this, kind, local);
    former?.close();
    this.#inbound.set(kind.kind, placed);
    return placed;
  }

  /**
   * The lease under which an entity may write now: for `activate`, which keeps it beside the state that it reads, and
   * for each write to be fenced by. Never asked for anew at the time of a write: the state may be from before. Throws
   * PlacementError `fenced`.
   */
  lease({ service, kind }: { readonly service: string; readonly kind: string }, id: string): ShardLease {
    const shard = shardOf(kind, id, this.node.shards);
    const epoch = this.node.epochOf(service, shard);
    if (epoch === undefined) throw new PlacementError('fenced', `this node does not hold shard ${service}/${shard}`);
    return { service, shard, epoch };
  }

  /**
   * Whether this node serves that entity now: how work that must happen once in the cluster finds the one who does it.
   */
  holds({ service, kind }: { readonly service: string; readonly kind: string }, id: string): boolean {
    return this.node.serves(service, shardOf(kind, id, this.node.shards));
  }

  /**
   * Whether the service is up in this process. While it is not, other nodes hold its entities: its shards are given
   * away at once, and those of other services stay.
   */
  setUp(service: string, isUp: boolean): void {
    if (isUp) this.node.restore(service);
    else this.node.withdraw(service);
  }

  /** The shards of a service that this node serves now. */
  held(service: string): HeldShards {
    return { shards: this.node.serving(service), count: this.node.shards };
  }

  /** Calls `handler`, which must not throw, whenever this node took shards of the service. Returns how to end that. */
  onAcquired(service: string, handler: () => void): () => void {
    const handlers = this.#acquired.get(service) ?? new Set();
    this.#acquired.set(service, handlers.add(handler));
    return () => handlers.delete(handler);
  }

  /** Hands over all shards; resolves when the others had time to learn of it: until then what they send goes on. */
  async drain(): Promise<void> {
    await this.node.drain();
    const others = [...this.node.view.nodes.keys()];
    if (others.length === 0 || this.#closed) return;
    const isCrowd = others.length > CROWD;
    if (!isCrowd) for (const id of others) this.send(id, 'look', new Uint8Array());
    await pause(isCrowd ? LEARN_MS + this.#beatMs : LEARN_MS);
  }

  /** Leaves the cluster and ends all timers, subscriptions and actors of it. What is still held is lost at once. */
  async leave(): Promise<void> {
    await this.timers.close();
    await this.node.leave();
    // Whoever has asked us already is told that we are not the owner: of an ask without an answer nobody knows what
    // became of it.
    await this.#post.close();
    await Promise.all(this.#answers);
    await this.#close();
  }

  /** The same without telling anybody, as if the process had died: the lease runs out. */
  async halt(): Promise<void> {
    this.node.halt();
    await this.#close();
  }

  /** Sends to another node; at most once, and never throws. */
  send(node: string, verb: string, data: Uint8Array): void {
    if (this.#closed) return;
    try {
      this.bus.publish(this.subject(node, verb), data);
    } catch (error) {
      this.complain(node, error, 'could not send to a node');
    }
  }

  subject(node: string, verb: string): string {
    return `${this.#prefix}.${node}.${verb}`;
  }

  /** A number no other ask of this node has. */
  nextAsk(): number {
    return this.#nextAsk++;
  }

  /** Logs a problem with another node, not more often than is useful. */
  complain(node: string, error: unknown, message: string): void {
    const now = performance.now();
    const last = this.#complaints.get(`${node} ${message}`);
    if (last !== undefined && now - last < COMPLAIN_EVERY_MS) return;
    if (this.#complaints.size >= MAX_COMPLAINTS) this.#complaints.clear();
    this.#complaints.set(`${node} ${message}`, now);
    this.log.warn({ node, error: errorText(error, 'unknown') }, message);
  }

  #isReached(): boolean {
    // A node alone in the cluster has nobody to reach, nor to give its shards to. One that is missing may have come
    // while this process stood still.
    if (this.node.view.nodes.size === 0 || this.#missed < 2) return true;
    return performance.now() - this.#echoed <= this.#echoMs;
  }

  /** Whether what others send would reach us: we are one of those who send. */
  async #echo(): Promise<void> {
    if (this.#echoing) return;
    this.#echoing = true;
    const sent = performance.now();
    try {
      await this.bus.request(this.subject(this.node.self.id, 'echo'), new Uint8Array(), this.#echoMs / 2);
      this.#echoed = sent;
      this.#missed = 0;
    } catch (error) {
      this.#missed += 1;
      if (!this.#closed) this.complain(this.node.self.id, error, 'this node does not reach itself over the bus');
    } finally {
      this.#echoing = false;
    }
  }

  #flush(): void {
    for (const inbound of this.#inbound.values()) inbound.flush();
  }

  async #stopEntities(given: readonly Shard[]): Promise<void> {
    const work: Promise<void>[] = [];
    for (const inbound of this.#inbound.values()) {
      const shards = new Set(given.filter(({ service }) => service === inbound.service).map(({ shard }) => shard));
      if (shards.size === 0) continue;
      work.push(inbound.release((id) => shards.has(shardOf(inbound.kind, id, this.node.shards))));
    }
    await Promise.all(work);
  }

  #receive({ subject, data, reply }: BusMessage): void {
    const verb = subject.slice(subject.lastIndexOf('.') + 1);
    try {
      if (verb === 'ask') this.#receiveAsk(data, reply);
      else if (verb === 'tell') this.#receiveTell(data);
      else if (verb === 'ref') this.refs.onMessage(readRefNews(data));
      else if (verb === 'hold') this.refs.onHold(readRefNews(data));
      else if (verb === 'ended') this.refs.onEnded(readRefNews(data));
      else if (verb === 'cancel') this.#cancels.cancel(readCancel(data));
      else if (verb === 'look' && this.#gone.isNews(data)) this.node.look();
      else if (verb === 'echo' && reply !== undefined) this.bus.publish(reply, new Uint8Array());
    } catch (error) {
      this.complain(subject, error, 'refused a message of another node');
      if (verb !== 'ask' || reply === undefined) return;
      this.bus.publish(reply, packAnswer(failed(unreadable(error instanceof PlacementError ? error : undefined))));
    }
  }

  #receiveTell(data: Uint8Array): void {
    const envelope = readTell(data);
    const placed = this.#inbound.get(envelope.kind);
    if (placed === undefined)
      this.complain(envelope.from, new Error(envelope.kind), 'a message for a kind that is not here');
    else inTrace(this.#parent, envelope.trace, () => placed.receive(envelope));
  }

  #receiveAsk(data: Uint8Array, reply: string | undefined): void {
    if (reply === undefined) return;
    const envelope = readAsk(data);
    const key = `${envelope.from}/${envelope.ask}`;
    const respond = (bytes: Uint8Array): void => {
      try {
        this.#respond(reply, bytes);
      } catch (error) {
        this.complain(envelope.from, error, 'could not answer');
      }
    };
    const known = this.#answered.get(key);
    if (known !== undefined) {
      void known.then(respond);
      return;
    }
    const placed = this.#inbound.get(envelope.kind);
    if (placed === undefined) {
      respond(packAnswer({ type: 'moved' }));
      return;
    }
    const lost = envelope.age > 0 && this.#answered.mayHaveForgotten(envelope.age);
    if (lost || !placed.stillOwnedAt(envelope)) {
      respond(packAnswer(failed(lostOnTheWay())));
      return;
    }
    let hadEffect = true;
    const cancel = this.#cancels.begin(envelope);
    const answer = inTrace(this.#parent, envelope.trace, () => placed.answer(envelope, cancel)).then((given) => {
      this.#cancels.end(envelope);
      hadEffect = given.type !== 'moved';
      return packAnswer(given, this.causes);
    });
    this.#answered.add(key, answer, () => hadEffect);
    const answering: Promise<unknown> = answer.then(respond).then(
      () => this.#answers.delete(answering),
      (error: unknown) => {
        this.#answers.delete(answering);
        this.complain(envelope.from, error, 'could not answer');
      },
    );
    this.#answers.add(answering);
  }

  /** What is too large to cross is answered all the same: its asker would wait for it, and ask again. */
  #respond(reply: string, bytes: Uint8Array): void {
    if (this.#closed) return;
    try {
      this.bus.publish(reply, bytes);
    } catch (error) {
      if (!(error instanceof BusError) || error.code !== 'too_large') throw error;
      this.bus.publish(reply, packAnswer(failed(tooLarge(bytes.byteLength))));
    }
  }

  async #close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const inbound of this.#inbound.values()) inbound.close();
    this.timers.halt();
    await this.#post.close();
    await this.refs.close();
    stop(this.#parent);
    await stopped(this.#parent);
  }
}
