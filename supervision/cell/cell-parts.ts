import type { Decision } from '../decisions.ts';
import type { ClockTimer } from '../environment.ts';
import type { ActorError } from '../errors.ts';
import type { AnyRef } from '../ref.ts';
import type { CommonOptions, CrashContext, StopReason } from '../types.ts';
import type { Meta } from './mailbox.ts';
import { type Observed, observer } from './observed.ts';
import type { SignalQueue } from './signals.ts';
import type { Timer } from './timer.ts';

/** A handler (or an initial state) whose promise is pending. When the cell no longer points at it, it was abandoned. */
export class AsyncRun {
  readonly msg: unknown;
  readonly meta: Meta;
  readonly init: boolean;
  /** Coarse time at which it began. */
  readonly since: number;
  /** Who looks at the handler, if anybody does. */
  readonly observed: Observed | undefined;

  constructor(msg: unknown, meta: Meta, init: boolean, since: number) {
    this.msg = msg;
    this.meta = meta;
    this.init = init;
    this.since = since;
    this.observed = init ? undefined : observer();
  }
}

/** The children of an actor: an intrusive list in order of spawning, and a map of those that were given a name. */
export class Children<C> {
  first: C | undefined = undefined;
  last: C | undefined = undefined;
  count = 0;
  names: Map<string, C> | undefined = undefined;
}

/** The parts most actors never need, made at first need. `C` is the cell: this file knows nothing of it. */
export class Rare<C> {
  children: Children<C> | undefined = undefined;
  /** The stateful handler or the initial state that is pending. */
  running: AsyncRun | undefined = undefined;
  /** Pending handlers of a stateless actor. */
  inflight: Set<AsyncRun> | undefined = undefined;
  concurrency = 1;
  /** Who wants to hear of this actor's end, and what to tell them. */
  watchers: Map<C, (reason: StopReason) => unknown> | undefined = undefined;
  /** Whose end this actor waits for. */
  watching: Set<C> | undefined = undefined;
  timers: Set<Timer> | undefined = undefined;
  controller: AbortController | undefined = undefined;
  /** Resolves the promise of the end. */
  ended: { promise: Promise<StopReason>; resolve: (reason: StopReason) => void } | undefined = undefined;
  /** Times (ms) of the latest restarts. */
  restarts: number[] | undefined = undefined;
  /** The crash that is being decided. */
  crash: object | undefined = undefined;
  /** Signals that wait; there is none while none does. */
  signals: SignalQueue | undefined = undefined;
  /** Limits how long a running handler or afterStop may hold up the end or a reset. */
  grace: Timer | undefined = undefined;
  /** The pause before a reset. */
  pause: Timer | undefined = undefined;
  idleTimer: ClockTimer | undefined = undefined;
  /** Coarse time at which the mailbox last ran empty. */
  idleSince = 0;
  /** What to tell the asks that still come while the actor ends. */
  refusal: ActorError | undefined = undefined;
}

/** What supervisors and entities change about an actor. One object for all actors of a kind. */
export interface CellHooks<C> {
  /** Its state comes from storage, from where a message wakes it again. */
  readonly isEntity?: boolean;
  /** Makes the context; default a plain one. */
  context?(cell: C): CrashContext<unknown>;
  /** The decision when there is no onCrash; `child` when it escalated, `init` when the state could not be made. */
  decision?(child: C | undefined, init: boolean): Decision;
  /** Looks at what initialStateFunc gave; after an error there is no such actor: it stops, and its asks get that. */
  admit?(cell: C, state: unknown): ActorError | undefined;
  /** Ends the children in its own way; whatever is left is stopped afterwards. */
  stopChildren?(cell: C): Promise<void>;
  /** The actor stops, and its state is the one that a handler left behind which threw. */
  broken?(cell: C): void;
  /** The actor begins to stop: it takes no more messages. */
  stopping?(cell: C, reason: StopReason): void;
  /** The actor has ended. */
  ended?(cell: C, reason: StopReason): void;
}

/**
 * The options of spawn and spawnStateless with their types forgotten. Its functions are written as methods, because
 * the parameters of methods are compared both ways: here the engine stops knowing what a message is.
 */
export interface Behaviour extends Omit<CommonOptions<unknown>, 'onCrash'> {
  readonly initialState?: unknown;
  initialStateFunc?(ctx: unknown): unknown;
  onCrash?(msg: unknown, error: unknown, ctx: unknown, child: AnyRef | undefined): Decision | Promise<Decision>;
  afterStop?(state: unknown, ctx: unknown): void | Promise<void>;
}

const DEFAULT_CAPACITY = 10_000;
/** A small integer for the engine. */
const MAX_CAPACITY = 2 ** 30;

/** How many messages may wait at an actor with these options. */
export function capacityOf({ mailbox }: Behaviour): number {
  return Math.min(mailbox?.capacity ?? DEFAULT_CAPACITY, MAX_CAPACITY);
}

/** Of whoever gives no options. */
export const noOptions: Behaviour = Object.freeze({});
