/** The shapes of nact's handlers and options. */
import type { Decision, Decisions } from '../decisions.ts';
import type { CommonOptions } from '../types.ts';
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

/**
 * Options of `spawnStateless`: when it stops for want of messages, and what an actor of this runtime has and nact's do
 * not, the bounds. Defaults as in `troupe/actors`.
 */
export type StatelessActorProps = Pick<
  CommonOptions<never>,
  'shutdownAfter' | 'mailbox' | 'intensity' | 'backoff' | 'shutdownMs' | 'kind'
>;

/** Options of `spawn`. */
export interface ActorProps<State, Msg> extends StatelessActorProps {
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

/** A handler of `spawn`: the value is the next state. */
export type ActorFunc<State, Msg, Given = ActorContext<Msg>> = (
  this: Given,
  state: State,
  msg: Msg,
  ctx: Given,
) => State | Promise<State>;

/** A handler of `spawnStateless`. */
export type StatelessActorFunc<Msg> = (
  this: ActorContext<Msg>,
  msg: Msg,
  ctx: ActorContext<Msg>,
) => void | Promise<void>;
