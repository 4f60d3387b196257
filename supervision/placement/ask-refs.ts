import { type AnyRef, Ref } from '../common/ref.ts';
import { type Codec, field, type JsonValue, type RefsIn, type RefsOut } from './codec.ts';
import type { RefExchange } from './refs.ts';

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
