import { BusError } from '../../proto/ports/bus.ts';
import { ActorError } from '../errors.ts';
import { type AnyRef, Ref } from '../ref.ts';
import { type Codec, field, type JsonValue, type RefsIn, type RefsOut } from './codec.ts';
import type { RefExchange } from './refs.ts';
import type { EntityPlace } from './view.ts';
import type { Answer, AskEnvelope } from './wire.ts';

/** An answer that was sent before its owner died, or lost its lease, arrives within this, ms. */
const LAST_ANSWER_MS = 1000;
/** An owner that handed the shard over and lives answers what reached it; on a busy machine that takes a while. */
const LIVING_ANSWER_MS = 4000;

interface OpenAsk {
  readonly shard: number;
  readonly place: EntityPlace;
  /** The owner has changed. Called again when it is not only another, but gone. */
  giveUp(): void;
}

/** Asks that wait for another node. One that froze or was cut off is waited for until another has its shard. */
export class OpenAsks {
  readonly #ownerOf: (shard: number) => EntityPlace | undefined;
  readonly #lives: (node: string) => boolean;
  readonly #open = new Set<OpenAsk>();

  constructor(ownerOf: (shard: number) => EntityPlace | undefined, lives: (node: string) => boolean) {
    this.#ownerOf = ownerOf;
    this.#lives = lives;
  }

  /** Looks who still owns what was asked: after each change of the view. */
  look(): void {
    for (const open of this.#open) {
      const owner = this.#ownerOf(open.shard);
      if (owner?.node !== open.place.node || owner.epoch !== open.place.epoch) open.giveUp();
    }
  }

  /**
   * What `answer` comes to; rejects `timeout` a second after the owner died (at once if the ask `isSafe`, and can be
   * sent to the next owner), some seconds after it handed over.
   */
  answer(shard: number, place: EntityPlace, isSafe: boolean, answer: Promise<Uint8Array>): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      let last: NodeJS.Timeout | undefined;
      let until = Number.POSITIVE_INFINITY;
      const open: OpenAsk = {
        shard,
        place,
        giveUp: () => {
          const now = performance.now();
          const lastMs = isSafe ? 0 : LAST_ANSWER_MS;
          const latest = now + (this.#lives(place.node) ? LIVING_ANSWER_MS : lastMs);
          if (latest >= until) return;
          until = latest;
          clearTimeout(last);
          last = setTimeout(() => {
            this.#open.delete(open);
            reject(new BusError('timeout', `${place.node} owns the shard no more, and did not answer.`));
          }, latest - now);
        },
      };
      const end = () => {
        clearTimeout(last);
        this.#open.delete(open);
      };
      this.#open.add(open);
      answer.then(
        (data) => {
          end();
          resolve(data);
        },
        (error: unknown) => {
          end();
          reject(error);
        },
      );
    });
  }
}

/** Which ask of another node. */
type AskOfOther = Pick<AskEnvelope, 'from' | 'ask'>;

/** The asks of other nodes that are being answered here and may be cancelled. */
export class AskCancels {
  readonly #open = new Map<string, AbortController>();

  /** The signal of an ask, if it may be cancelled; until `end`. */
  begin(envelope: AskEnvelope): AbortSignal | undefined {
    if (!envelope.isCancellable) return undefined;
    const controller = new AbortController();
    this.#open.set(keyOf(envelope), controller);
    return controller.signal;
  }

  end(envelope: AskEnvelope): void {
    if (envelope.isCancellable) this.#open.delete(keyOf(envelope));
  }

  /** The asker gave up. */
  cancel(ask: AskOfOther): void {
    this.#open.get(keyOf(ask))?.abort(new Error(`${ask.from} gave up`));
  }

  /** Nobody waits for the asks of nodes that are gone. */
  onGone(nodes: readonly string[]): void {
    for (const node of nodes) {
      for (const [key, controller] of this.#open) if (key.startsWith(`${node}/`)) controller.abort();
    }
  }
}

function keyOf({ from, ask }: AskOfOther): string {
  return `${from}/${ask}`;
}

/** The answer to an ask that failed so. */
export function failed(error: ActorError): Answer {
  return { type: 'error', error };
}

/** Nobody knows whether the ask had its effect. */
export function lostOnTheWay(): ActorError {
  const text = 'the owner changed before it answered: the message may have been handled';
  return new ActorError('stopped', text, { begun: true });
}

/** The entity has answered, but that cannot be sent. */
export function tooLarge(bytes: number): ActorError {
  return new ActorError('crashed', `the answer has ${bytes} bytes, too many to be sent`);
}

/** A message that could not be read had no effect. */
export function unreadable(cause?: unknown): ActorError {
  return new ActorError('stopped', 'the message cannot be read there', cause === undefined ? {} : { cause });
}

/** What `work` comes to; rejects with the reason of `signal` once that is aborted. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise<T>((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason);
    signal.addEventListener('abort', giveUp, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp));
  });
}

/** Stands for the asker in a message that leaves. */
class ReplyAddress<Reply> extends Ref<Reply> {
  override get name(): string {
    return '$ask';
  }

  override get path(): string {
    return '$ask';
  }

  override deliver(): void {
    throw new TypeError('the message of an ask is answered where it is handled');
  }
}

/** The refs of an ask: its own reply address is no ref, but told by its place. */
export class Outgoing<Reply> implements RefsOut {
  readonly replyTo: Ref<Reply> = new ReplyAddress<Reply>();
  readonly #refs: RefsOut;
  #codec: Codec<unknown> | undefined;

  constructor(refs: RefsOut) {
    this.#refs = refs;
  }

  out<Msg>(ref: Ref<Msg>, codec: Codec<Msg>): JsonValue {
    if (!same(ref, this.replyTo)) return this.#refs.out(ref, codec);
    this.#codec = codec;
    return { $reply: true };
  }

  /** The reply; the codec that came with the reply address makes it what the asker expects. */
  decodeReply(wire: JsonValue, refs: RefsIn): { readonly value: Reply } {
    const codec = this.#codec;
    if (codec === undefined) throw new TypeError('an answer to a message without a reply address');
    return boxed<Reply>((box) => box.put(codec.decode(wire, refs)));
  }
}

function same(one: AnyRef, other: AnyRef): boolean {
  return one === other;
}

/** A value of a type that is forgotten on its way: a method compares its parameter both ways. */
function boxed<T>(fill: (box: { put(value: unknown): void }) => void): { readonly value: T } {
  let content: { readonly value: T } | undefined;
  const box = {
    put(value: T): void {
      content = { value };
    },
  };
  fill(box);
  if (content === undefined) throw new TypeError('nothing was put in');
  return content;
}

/** The refs of an ask that came in. */
export class Incoming implements RefsIn {
  readonly #refs: RefExchange;
  readonly #from: string;
  #replyTo: Ref<unknown> | undefined;
  #codec: Codec<unknown> | undefined;

  constructor(refs: RefExchange, from: string) {
    this.#refs = refs;
    this.#from = from;
  }

  with(replyTo: Ref<unknown>): this {
    this.#replyTo = replyTo;
    return this;
  }

  in<Msg>(wire: unknown, codec: Codec<Msg>): Ref<Msg> {
    if (field(wire, '$reply') !== true || this.#replyTo === undefined) return this.#refs.in(wire, codec);
    this.#codec = codec;
    return this.#replyTo;
  }

  encodeReply(reply: unknown): JsonValue {
    if (this.#codec === undefined) throw new TypeError('a reply to a message without a reply address');
    return this.#codec.encode(reply, this.#refs.to(this.#from));
  }
}
