/** What nact's refs look like, on refs of this runtime. */
import type { AnyRef, Ref } from '../common/ref.ts';

declare const takes: unique symbol;

/** A message on its way, with who sent it. */
export interface NactEnvelope {
  readonly message: unknown;
  readonly sender: NactRef<unknown>;
}

/** Where an actor is in its tree: the system, and the names from the top down. */
export class ActorPath {
  readonly system: string;
  readonly parts: readonly string[];

  constructor(parts: readonly string[], system: string) {
    this.parts = parts;
    this.system = system;
  }

  /** `system://parent/child`. */
  toString(): string {
    return `${this.system}://${this.parts.join('/')}`;
  }
}

/** Whom a message is sent to: an actor, a system, whoever asked, or nobody. `Msg` is what it takes. */
export abstract class NactRef<in Msg> {
  declare readonly [takes]: (msg: Msg) => void;
  abstract readonly type: 'actor' | 'system' | 'temp' | 'nobody';
  abstract readonly system: { readonly name: string | undefined };
}

/** Any ref, whatever it takes. */
export type AnyNactRef = NactRef<never>;

/** An actor. */
export class ActorReference extends NactRef<unknown> {
  override readonly type = 'actor';
  override readonly system: { readonly name: string };
  readonly parent: ActorReference | ActorSystemReference;
  readonly path: ActorPath;
  readonly name: string;
  readonly #target: Ref<NactEnvelope>;

  constructor(target: Ref<NactEnvelope>, parent: ActorReference | ActorSystemReference) {
    super();
    this.#target = target;
    this.parent = parent;
    this.name = target.name;
    this.path = new ActorPath([...parent.path.parts, target.name], parent.path.system);
    this.system = { name: parent.system.name };
    known.set(target, this);
  }

  /** The actor of this runtime behind `ref`. */
  static targetOf(ref: ActorReference): Ref<NactEnvelope> {
    return ref.#target;
  }
}

/** The root of a tree of actors. */
export class ActorSystemReference extends NactRef<never> {
  override readonly type = 'system';
  override readonly system: { readonly name: string };
  readonly name: string;
  readonly path: ActorPath;

  constructor(name: string) {
    super();
    this.name = name;
    this.path = new ActorPath([], name);
    this.system = { name };
  }
}

/** Who waits for the answer to a query: takes one message. */
export class TemporaryReference extends NactRef<unknown> {
  override readonly type = 'temp';
  override readonly system: { readonly name: string };
  readonly #asker: AnyRef;

  constructor(asker: AnyRef, system: string) {
    super();
    this.#asker = asker;
    this.system = { name: system };
  }

  /** The address of the asker behind `ref`. */
  static askerOf(ref: TemporaryReference): AnyRef {
    return ref.#asker;
  }
}

/** The sender of a message that has none. What is sent to it is lost. */
export class Nobody extends NactRef<unknown> {
  override readonly type = 'nobody';
  override readonly system = { name: undefined };
  readonly path = { parts: [] };
}

const known = new WeakMap<AnyRef, ActorReference>();

/** The ref of an actor that was spawned here; undefined for another one. */
export function referenceOf(target: AnyRef): ActorReference | undefined {
  return known.get(target);
}

/** Sends a message; lost where nobody takes it. */
export function sendTo(ref: AnyNactRef, message: unknown, sender: AnyNactRef): void {
  if (ref instanceof ActorReference) ActorReference.targetOf(ref).deliver({ message, sender: takerOf(sender) });
  else if (ref instanceof TemporaryReference) TemporaryReference.askerOf(ref).deliver(message);
  else if (!(ref instanceof NactRef)) throw new TypeError('messages are sent to refs');
}

/** The path of a ref as text; its type where it has none. */
export function pathOf(ref: AnyNactRef): string {
  return ref instanceof ActorReference || ref instanceof ActorSystemReference ? ref.path.toString() : ref.type;
}

/** A ref as the sender of a message: a system takes none, so nobody is. */
function takerOf(ref: AnyNactRef): NactRef<unknown> {
  return ref instanceof ActorReference || ref instanceof TemporaryReference ? ref : NOBODY;
}

/** The sender of messages without one. */
export const NOBODY = new Nobody();
