import type { Log } from '../proto/ports/log.ts';
import type { Decision, Decisions } from './decisions.ts';
import type { Schedule, SystemClock } from './environment.ts';
import type { AnyRef, Ref } from './ref.ts';
import type { Tracer } from './tracing.ts';

/**
 * Why an actor ended.
 *  stopped    `stop` was called on it, or it stopped itself; `detail` is what the caller gave
 *  idle       it was idle for `shutdownAfter`, or went to sleep
 *  parent     its parent ended or was reset
 *  crashed    a supervision decision after `error`
 *  intensity  it crashed too often within its window; `error` is the last crash
 *  not_found  an entity that storage does not know
 *  killed     it did not end within its deadline
 */
export type StopReason =
  | { readonly kind: 'stopped'; readonly detail?: string }
  | { readonly kind: 'idle' }
  | { readonly kind: 'parent' }
  | { readonly kind: 'crashed'; readonly error: unknown }
  | { readonly kind: 'intensity'; readonly error: unknown }
  | { readonly kind: 'not_found' }
  | { readonly kind: 'killed' };

/** Whether an ending was a failure: what a `transient` child is restarted after. */
export function isFailure(reason: StopReason): boolean {
  return reason.kind === 'crashed' || reason.kind === 'intensity' || reason.kind === 'killed';
}

/** Ends a timer. Calling it again, or after the timer fired, does nothing. */
export type Cancel = () => void;

/** What an actor can do and know besides its state and its message. One object for a life: of one that a
 * reset ended nothing comes any more. */
export interface Context<Msg> extends Decisions {
  readonly self: Ref<Msg>;
  /** The system's ref for a top-level actor. */
  readonly parent: AnyRef;
  readonly name: string;
  readonly path: string;
  /** A live view, in order of spawning. Finding an unnamed child by its name walks the list. */
  readonly children: ReadonlyMap<string, AnyRef>;
  /**
   * The W3C `traceparent` of the message that is handled; undefined without one, and without a tracer. Messages sent
   * from here carry it on by themselves.
   */
  readonly trace: string | undefined;
  /** Adds the actor's path to every line, and with a tracer `trace_id`, where there is a trace. */
  readonly log: Log;
  /** Aborted when the actor begins to stop or is reset; hand it to whatever the handler waits for. */
  readonly signal: AbortSignal;
  /**
   * Sends `toMessage(reason)` to self, as a signal, once `ref` has ended; at once when it already has. Again replaces
   * the message. Signals are apart from the mailbox: no bound meets them, and they are handled before what is in it.
   */
  watch(ref: AnyRef, toMessage: (reason: StopReason) => Msg): void;
  unwatch(ref: AnyRef): void;
  /** Sends `msg` to self in `ms`, as a signal. The timer ends with the actor, and with a reset. */
  after(ms: number, msg: Msg): Cancel;
  /** Sends `msg` to self every `ms`, as a message among others, unless the previous one still waits in the mailbox. */
  every(ms: number, msg: Msg): Cancel;
}

/** What `onCrash` gets: the context, and the messages that wait. */
export interface CrashContext<Msg> extends Context<Msg> {
  readonly mailbox: readonly Msg[];
}

/** `reject`: refuse the new one (an ask fails `overloaded`, a tell becomes a dead letter). The drop policies shed tells
 * without a dead letter, only counted; an ask that is shed always fails `overloaded`. */
export type MailboxPolicy = 'reject' | 'drop-oldest' | 'drop-newest';

/** Bound of the messages that wait (not of signals, nor of the message being handled). Default: 10,000, reject. */
export interface MailboxOptions {
  readonly capacity?: number;
  readonly policy?: MailboxPolicy;
}

/** At most `max` restarts within `withinMs`; the next one escalates. */
export interface Intensity {
  readonly max: number;
  readonly withinMs: number;
}

/** Pause before the n-th restart of the window: minMs * 2^(n-1), at most maxMs, of which half is random. */
export interface Backoff {
  readonly minMs: number;
  readonly maxMs: number;
}

/** What spawn and spawnStateless share. */
export interface CommonOptions<Msg> {
  /** 1 to 255 characters without `/`, not `$` and a number, unique among living siblings. */
  readonly name?: string;
  /** Label for numbers and the tree. Default `actor`. */
  readonly kind?: string;
  /** Stop after this many ms without a message. */
  readonly shutdownAfter?: number;
  readonly mailbox?: MailboxOptions;
  /** For resets. Default 10 within 10 s. */
  readonly intensity?: Intensity;
  /** For resets. Default: at once. */
  readonly backoff?: Backoff;
  /**
   * How long a running handler, and then `afterStop`, may go on after stop before it is abandoned. Default 5,000 ms.
   */
  readonly shutdownMs?: number;
  /** How long `onCrash` may take to decide; then the actor stops. Default 5,000 ms. */
  readonly decisionMs?: number;
  /** `msg` is undefined when the state could not be made; `child`: who escalated. Default: stop (stateless: resume). */
  onCrash?(
    msg: Msg | undefined,
    error: unknown,
    ctx: CrashContext<Msg>,
    child: AnyRef | undefined,
  ): Decision | Promise<Decision>;
}

/** Options of `spawn`. Methods are called without `this`. */
export interface SpawnOptions<State, Msg> extends CommonOptions<Msg> {
  readonly initialState?: State;
  /** Makes the state at spawn and at every reset; messages wait meanwhile. Wins over `initialState`. */
  initialStateFunc?(ctx: Context<Msg>): State | Promise<State>;
  /** Called once after the handler and all children have ended; not when the actor had to be killed. */
  afterStop?(state: State, ctx: Context<Msg>): void | Promise<void>;
}

/** Options of `spawnStateless`. */
export interface StatelessOptions<Msg> extends CommonOptions<Msg> {
  /** Messages handled at once. Default 1. */
  readonly concurrency?: number;
}

/** How an ask is made. */
export interface QueryOptions {
  /** Aborted when the reply is of no use any more: the ask fails `cancelled`, and is not handled if it still waits. */
  readonly signal?: AbortSignal | undefined;
}

/** A message nobody handled. `late`: a reply after the ask was over. */
export interface DeadLetter {
  readonly to: string;
  readonly kind: string;
  readonly reason: 'stopped' | 'overloaded' | 'not_found' | 'crashed' | 'late';
  readonly message: unknown;
}

/** Options of `start`. Without `log` nothing is logged. */
export interface SystemOptions {
  readonly name?: string;
  readonly log?: Log;
  /** Told of asks and handlers that belong to a trace (`withTrace`); without it messages carry none. */
  readonly tracer?: Tracer;
  /**
   * A handler, or an initial state, that takes longer than so many ms is named in the log, and again when it ends.
   * Default 10,000; none with a `clock`. One that is not asynchronous is not seen.
   */
  readonly longHandlerMs?: number;
  /**
   * The type of a message as the log, the tree and numbers name it; undefined: its text `type`, or else its class. Must
   * come from code, not from input, and hold nothing else of the message.
   */
  messageType?(message: unknown): string | undefined;
  /** Called for each dead letter; what it throws is logged and goes no further. */
  onDeadLetter?(letter: DeadLetter): void;
  /**
   * Called with the name of a supervisor at the top that had too many restarts, and the last failure: nothing restarts
   * it. What it throws is logged and goes no further.
   */
  onGivingUp?(name: string, cause: unknown): void;
  /**
   * For development: the plain objects and arrays of messages and of replies to asks are frozen, so that whoever
   * changes what it has sent or got throws a TypeError. Not of signals (`watch`, `after`). Default: false.
   */
  readonly freezeMessages?: boolean;
  /**
   * For tests: `after`, `every`, and the pauses before an actor or an entity starts again, are so many times shorter.
   * Deadlines are not. Default 1.
   */
  readonly pace?: number;
  /** All times of the system are on it. Default: those of the process. */
  readonly clock?: SystemClock;
  /** At least 0 and below 1. Default: Math.random. */
  random?(): number;
  /** Which actor is next. Default: the one that waits longest; then handlers run for about 2 ms a turn of the loop. */
  readonly schedule?: Schedule;
  /** For tests of the runtime: hears of an actor whose state is a mixture of two. Must not throw. */
  onIllegalFlags?(problem: string): void;
}
