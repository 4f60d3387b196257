import type { Log } from '../../proto/ports/log.ts';
import { Cell } from '../cell/cell.ts';
import { type AnyRef, Ref } from '../common/ref.ts';
import { currentTrace } from '../common/tracing.ts';
import { dispatch, spawn, spawnStateless, stop, stopped } from '../system/verbs.ts';
import { type Codec, field, type JsonValue, type RefsIn, type RefsOut } from './codec.ts';
import { inTrace } from './in-trace.ts';
import { packRefNews, type RefNews } from './wire.ts';

/** A ref of this node that others know by number. */
interface Exported {
  readonly ref: Ref<unknown>;
  readonly codec: Codec<unknown>;
  /** Nodes that hear of its end. */
  readonly holders: Set<string>;
}

/** What came from one other node: a local actor stands for each of its refs. */
interface RefOrigin {
  readonly since: number;
  readonly refs: Map<number, Ref<unknown>>;
}

interface RefExchangeOptions {
  /** The actors that stand for refs of others live under it. */
  readonly parent: AnyRef;
  readonly self: string;
  readonly log: Log;
  send(node: string, verb: 'ref' | 'hold' | 'ended', data: Uint8Array): void;
}

/** The addresses of askers (they end without being watched) that are kept for others at once; the oldest go first. */
const MAX_ASKS = 10_000;
/** A node from which a ref came, and that is in no view after this long, ms, is gone. */
const UNSEEN_MS = 30_000;

/**
 * Refs that crossed. One of ours gets a number when it first leaves, and loses it when its actor ends; the nodes that
 * hold it are told. One of another node is a local actor that passes messages on: it can be watched, and ends when the
 * other one, or its node, does. The same ref that arrives twice is the same actor.
 */
export class RefExchange implements RefsIn {
  readonly #options: RefExchangeOptions;
  /** Above the actors that stand for refs of others. */
  readonly #host: AnyRef;
  readonly #exported = new Map<number, Exported>();
  readonly #numbers = new Map<Ref<unknown>, number>();
  readonly #asks: number[] = [];
  readonly #origins = new Map<string, RefOrigin>();
  /** The actors that refs of other nodes stand for. */
  readonly #owners = new WeakMap<Ref<never>, { readonly node: string; readonly ref: number }>();
  #next = 1;

  constructor(options: RefExchangeOptions) {
    this.#options = options;
    this.#host = spawn<null, never>(options.parent, (state) => state, { kind: 'placement/refs' });
  }

  /** How many of our refs others may know. */
  get exported(): number {
    return this.#exported.size;
  }

  /** How many refs of others are known here. */
  get imported(): number {
    let count = 0;
    for (const { refs } of this.#origins.values()) count += refs.size;
    return count;
  }

  /** For a message to `node`. */
  to(node: string): RefsOut {
    return { out: (ref, codec) => this.#out(node, ref, codec) };
  }

  in<Msg>(wire: unknown, codec: Codec<Msg>): Ref<Msg> {
    const owner = field(wire, '$ref');
    const node: unknown = Array.isArray(owner) ? owner[0] : undefined;
    const number: unknown = Array.isArray(owner) ? owner[1] : undefined;
    if (typeof node !== 'string' || typeof number !== 'number') throw new TypeError('not a ref that crossed');
    const known: Ref<unknown> | undefined =
      node === this.#options.self ? this.#exported.get(number)?.ref : this.#origins.get(node)?.refs.get(number);
    return known ?? this.#standIn(node, number, codec);
  }

  /** A message for one of ours. */
  onMessage({ ref, from, message, trace }: RefNews): void {
    const entry = this.#exported.get(ref);
    if (entry === undefined) this.#tellEnd(from, ref);
    else inTrace(this.#host, trace, () => dispatch(entry.ref, entry.codec.decode(message, this)));
  }

  /** Somebody holds one of ours. */
  onHold({ ref, from }: RefNews): void {
    const entry = this.#exported.get(ref);
    if (entry === undefined) this.#tellEnd(from, ref);
    else entry.holders.add(from);
  }

  /** One of theirs has ended. */
  onEnded({ ref, from }: RefNews): void {
    const standIn = this.#origins.get(from)?.refs.get(ref);
    if (standIn !== undefined) stop(standIn, 'ended on its node');
  }

  /** After each view: nodes that live no more, and who lives. What came from the dead ends. */
  onView(gone: readonly string[], lives: (node: string) => boolean): void {
    for (const [node, { since, refs }] of this.#origins) {
      const unseen = !lives(node) && performance.now() - since > UNSEEN_MS;
      if (!unseen && !gone.includes(node)) continue;
      for (const ref of refs.values()) stop(ref, 'its node is gone');
    }
  }

  /** Ends all that stands for others. */
  async close(): Promise<void> {
    stop(this.#host);
    await stopped(this.#host);
    this.#exported.clear();
    this.#numbers.clear();
  }

  #out<Msg>(node: string, ref: Ref<Msg>, codec: Codec<Msg>): JsonValue {
    const owner = this.#owners.get(ref);
    if (owner !== undefined) return { $ref: [owner.node, owner.ref] };
    const erased: Exported = { ref: refOf(ref), codec, holders: new Set() };
    let number = this.#numbers.get(erased.ref);
    if (number === undefined) {
      number = this.#next++;
      this.#numbers.set(erased.ref, number);
      this.#exported.set(number, erased);
      this.#untilItEnds(number, erased.ref);
    }
    this.#exported.get(number)?.holders.add(node);
    return { $ref: [this.#options.self, number] };
  }

  #untilItEnds(number: number, ref: Ref<unknown>): void {
    if (ref instanceof Cell) {
      void stopped(ref).then(() => this.#forget(number));
      return;
    }
    this.#asks.push(number);
    if (this.#asks.length > MAX_ASKS) this.#forget(this.#asks.shift() ?? 0);
  }

  #forget(number: number): void {
    const entry = this.#exported.get(number);
    if (entry === undefined) return;
    this.#exported.delete(number);
    this.#numbers.delete(entry.ref);
    for (const node of entry.holders) this.#tellEnd(node, number);
  }

  #tellEnd(node: string, ref: number): void {
    this.#options.send(node, 'ended', packRefNews({ ref, from: this.#options.self, message: undefined }));
  }

  #standIn<Msg>(node: string, number: number, codec: Codec<Msg>): Ref<Msg> {
    const { self, send } = this.#options;
    const standIn = spawnStateless<Msg>(
      this.#host,
      (message) => {
        const wire = codec.encode(message, this.to(node));
        const data = packRefNews({ ref: number, from: self, message: wire, trace: currentTrace() });
        send(node, 'ref', data);
      },
      { kind: 'placement/remote-ref' },
    );
    let origin = this.#origins.get(node);
    if (origin === undefined) {
      origin = { since: performance.now(), refs: new Map() };
      this.#origins.set(node, origin);
    }
    const { refs } = origin;
    const kept = refOf(standIn);
    refs.set(number, kept);
    this.#owners.set(standIn, { node, ref: number });
    void stopped(standIn).then(() => {
      if (refs.get(number) !== kept) return;
      refs.delete(number);
      if (refs.size === 0 && this.#origins.get(node)?.refs === refs) this.#origins.delete(node);
    });
    // Whoever sent it here need not be the node of its actor.
    send(node, 'hold', packRefNews({ ref: number, from: self, message: undefined }));
    return standIn;
  }
}

/** A ref with its type forgotten, by the one kind of parameter that compares both ways: a method's. */
function refOf(ref: AnyRef): Ref<unknown> {
  if (isAnyTaker(ref)) return ref;
  throw new TypeError('not a ref');
}

function isAnyTaker(ref: AnyRef): ref is AnyRef & Ref<unknown> {
  return ref instanceof Ref;
}
