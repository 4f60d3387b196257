import type { Decision } from '../common/decisions.ts';
import type { AnyRef, Ref } from '../common/ref.ts';
import type { Backoff, Context, CrashContext, Intensity, MailboxOptions, QueryOptions } from '../common/types.ts';

/** What an entity can do besides what every actor can. */
export interface EntityContext<Msg> extends Context<Msg> {
  /** Which one of its kind it is. */
  readonly id: string;
  /** Go to sleep once no message waits. The next message wakes it again, from storage. */
  sleep(): void;
  /** While true it is not put to sleep for being idle. A crash sets it back to false. */
  keepAwake(on: boolean): void;
}

/** What the entities of a kind are. */
export interface EntityKind<Msg, State> {
  /** For example `compute/container`. Names it in the tree and in the numbers. */
  readonly kind: string;
  /**
   * Reads the state from storage. Undefined: there is no such entity. A failure fails the messages that wait, no more.
   */
  activate(id: string, ctx: EntityContext<Msg>): Promise<State | undefined> | State | undefined;
  /** One message at a time; returns the next state. A throw re-activates the entity from storage. */
  handle(state: State, msg: Msg, ctx: EntityContext<Msg>): State | Promise<State>;
  /** Falls asleep after this many ms without a message. */
  readonly sleepAfterMs: number;
  /** Bound of the messages that wait for one entity. */
  readonly mailbox?: MailboxOptions;
  /** Called when it falls asleep or its node lets go of it; not after a crash. The next activation waits for it. */
  onSleep?(state: State, ctx: EntityContext<Msg>): void | Promise<void>;
  /** Default: reset (re-activate) when a handler threw, stop when `activate` did (`msg` is undefined then). */
  onCrash?(
    msg: Msg | undefined,
    error: unknown,
    ctx: CrashContext<Msg>,
    child: AnyRef | undefined,
  ): Decision | Promise<Decision>;
  /** Re-activations after crashes; past it the entity stops and cools down. Default 5 within 60 s. */
  readonly intensity?: Intensity;
  /** Pause before a re-activation. Default 50 ms to 5 s. */
  readonly backoff?: Backoff;
  /** How long an entity that crashed too often refuses messages (`crashed`) before it may wake again. Default 10 s. */
  readonly coolDownMs?: number;
  /** How long `activate` may take; then the messages that wait fail, and the next one tries again. Default 20 s. */
  readonly activateMs?: number;
  /** How long `onCrash` may take to decide; then the entity stops. Default 5 s. */
  readonly decisionMs?: number;
  /** How long its running handler, and onSleep, may go on when it has to stop. Default 5 s. */
  readonly shutdownMs?: number;
}

/** How an entity is asked. */
export interface AskOptions extends QueryOptions {
  /** Handling it twice does no harm: it is sent again when its owner is lost. Default: no. */
  readonly isSafe?: boolean;
}

/**
 * All entities of a kind. Callers know an id and nothing of where the entity is or whether it is awake:
 * the local implementation is in entities.ts, one that spans nodes stands behind the same interface.
 */
export interface Entities<Msg> {
  /** The actor above the entities of this node: to stop, watch, or use as a supervisor's child. */
  readonly ref: AnyRef;
  /** Sends without waiting; wakes the entity when it sleeps. */
  tell(id: string, msg: Msg): void;
  /** Asks and waits. Rejects with ActorError; `not_found` when there is no such entity. */
  ask<Reply>(id: string, make: (replyTo: Ref<Reply>) => Msg, timeoutMs: number, options?: AskOptions): Promise<Reply>;
  /** Entities awake on this node, those that are waking included. */
  awake(): number;
  /** Their ids. */
  ids(): string[];
  /**
   * Lets go of the entities whose id matches: each finishes its message, then stops. Resolves when all have ended. Of
   * many it takes some at a time, so that timers and sockets go on meanwhile. Placement calls it before a shard is
   * handed over, and keeps further messages away.
   */
  release(matches: (id: string) => boolean): Promise<void>;
}
