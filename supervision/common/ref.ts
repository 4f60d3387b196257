declare const accepts: unique symbol;

/**
 * Where messages of type `Msg` may be sent: an actor, or the address of an asker. Opaque: send with `dispatch` and
 * `query`. A ref stays valid after its actor has ended; what is sent then becomes a dead letter.
 * `in Msg`: a ref that takes more is a ref that takes less.
 */
export abstract class Ref<in Msg> {
  declare readonly [accepts]: (msg: Msg) => void;
  /** Unique among living siblings; `$` and a number when none was given. */
  abstract get name(): string;
  /** `system://parent/child`, names percent-encoded. For people and logs, not for addressing. */
  abstract get path(): string;
  /** Takes a message without waiting. Use `dispatch`, which checks the type of the message. */
  abstract deliver(msg: unknown): void;
}

/** A name as a path has it. Half a surrogate pair, which has no encoding, becomes the replacement character. */
export function pathSegment(name: string): string {
  return encodeURIComponent(name.toWellFormed());
}

/** Any ref, whatever it takes: enough to stop, watch or spawn under, not to send to. */
export type AnyRef = Ref<never>;

/** The root of a tree of actors, made by `start`. */
export interface SystemRef extends Ref<never> {
  readonly isSystem: true;
}
