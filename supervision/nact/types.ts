/** The shapes of nact's handlers and options. */
import type { Decision, Decisions } from '../common/decisions.ts';
import type { Backoff, Intensity, MailboxOptions } from '../common/types.ts';
import type { NactLogger } from './logger.ts';
import type { ActorPath, AnyNactRef, NactRef } from './references.ts';

/** What a handler is given besides state and message; a plain object, made for each message. Also `this`. */
export interface ActorContext<in Msg> {
  readonly parent: AnyNactRef;
  readonly path: ActorPath;
  readonly self: NactRef<Msg>;
  readonly name: string;
  /** A copy: the children as the message is handled. */
  readonly children: Map<string, NactRef<unknown>>;
  /** Who sent the message: whoever asked, the third argument of `dispatch`, or a `Nobody`. */
  readonly sender: NactRef<unknown>;
  readonly log: NactLogger;
}

/** A message that waits, and who sent it. */
interface WaitingMessage {
  readonly message: unknown;
  readonly sender: AnyNactRef;
}

/** What `afterStop` is given. */
export interface ActorContextWithMailbox<in Msg> extends ActorContext<Msg> {
  readonly mailbox: WaitingMessage[];
}

/** What `onCrash` is given: the messages that wait, and the decisions. */
export interface SupervisionContext<in Msg> extends ActorContextWithMailbox<Msg>, Decisions {}

/** What an actor of this runtime has, and nact's do not: the bounds. Defaults as in `troupe/actors`. */
interface BoundedProps {
  readonly mailbox?: MailboxOptions;
  readonly intensity?: Intensity;
  readonly backoff?: Backoff;
  readonly shutdownMs?: number;
  readonly kind?: string;
}

/** Options of `spawn`. */
export interface ActorProps<State, Msg> extends BoundedProps {
  /** Stop after this many ms without a message. */
  readonly shutdownAfter?: number;
  readonly initialState?: State;
  /** Makes the state at spawn and at every reset. Wins over `initialState`. */
  initialStateFunc?(ctx: ActorContext<Msg>): State | Promise<State>;
  /** `msg` is undefined when the state could not be made; `child`: who escalated. Default: stop. */
  onCrash?(
    msg: Msg | undefined,
    error: unknown,
    ctx: SupervisionContext<Msg>,
    child: NactRef<unknown> | undefined,
  ): Decision | Promise<Decision>;
  afterStop?(state: State, ctx: ActorContextWithMailbox<Msg>): void | Promise<void>;
}

/** Options of `spawnStateless`. */
export interface StatelessActorProps extends BoundedProps {
  readonly shutdownAfter?: number;
}

/** A handler of `spawn`: the value is the next state. */
export type ActorFunc<State, Msg> = (
  this: ActorContext<Msg>,
  state: State,
  msg: Msg,
  ctx: ActorContext<Msg>,
) => State | Promise<State>;

/** A handler of `spawnStateless`. */
export type StatelessActorFunc<Msg> = (
  this: ActorContext<Msg>,
  msg: Msg,
  ctx: ActorContext<Msg>,
) => void | Promise<void>;
