import { isPromise } from '../../lib/waiting.ts';
import { ActorError } from '../errors.ts';
import { pathSegment } from '../ref.ts';
import type { CrashContext, StopReason } from '../types.ts';
import { type Behaviour, type CellHooks, type Children, capacityOf, noOptions, Rare } from './cell-parts.ts';
import {
  BLOCKED,
  CLOSED,
  ENDED,
  GO_ON,
  HELD,
  NOT_AT_ONCE,
  NOT_NOW,
  PILE,
  QUEUED,
  RESETTING,
  RUNNING,
  SIGNALS,
  SLOT,
  STATELESS,
  STOPPING,
  WAITING,
  WATCH_EMPTY,
} from './flags.ts';
import { Inbox, taken } from './inbox.ts';
import type { KindStats } from './kind-stats.ts';
import type { Meta } from './mailbox.ts';
import { refuse, shed } from './refusals.ts';
import type { Runnable } from './run-queue.ts';

/** The rare events of a cell, handled outside of it (lifecycle.ts). */
interface Lifecycle {
  crashed(cell: Cell, msg: unknown, meta: Meta, error: unknown, init: boolean): void;
  initialised(cell: Cell, state: unknown): void;
  /** Something a stop or a reset waits for is over. */
  advance(cell: Cell): void;
  /** The mailbox ran empty and the cell asked to hear of it. */
  emptied(cell: Cell): void;
  context(cell: Cell): CrashContext<unknown>;
  /** A stateful handler gave a promise: nothing else is handled until it has settled. */
  awaited(cell: Cell, promise: PromiseLike<unknown>, msg: unknown, meta: Meta, init: boolean): void;
  /** A stateless handler gave a promise. */
  launched(cell: Cell, promise: PromiseLike<unknown>, msg: unknown, meta: Meta): void;
  /** Handles up to `limit` messages, and looks at some. */
  observe(cell: Cell, limit: number): number;
}

/** What lifecycle.ts has joined. */
export let lifecycle: Lifecycle;

/** Called once, by lifecycle.ts. */
export function setLifecycle(implementation: Lifecycle): void {
  lifecycle = implementation;
}

/** A handler as the engine calls it: (state, msg, ctx), or (msg, ctx) when stateless. */
export type MessageHandler = (a: unknown, b: unknown, c?: unknown) => unknown;

/** An actor, and its ref. Small on purpose: a parked actor is these fields and nothing else. */
export class Cell extends Inbox implements Runnable {
  // What each message needs comes first, in as few cache lines as may be.
  state: unknown = undefined;
  f: MessageHandler;
  private ctx: CrashContext<unknown> | undefined = undefined;
  readonly kind: KindStats;
  nextRun: Runnable | undefined = undefined;
  /** A given name, or the number an unnamed actor is known by. */
  readonly label: string | number;
  options: Behaviour;
  readonly hooks: CellHooks<Cell> | undefined;
  readonly parent: Cell | undefined;
  before: Cell | undefined = undefined;
  after: Cell | undefined = undefined;
  rare: Rare<Cell> | undefined = undefined;
  reason: StopReason | undefined = undefined;

  constructor(
    parent: Cell | undefined,
    label: string | number,
    kind: KindStats,
    f: MessageHandler,
    options: Behaviour,
    hooks: CellHooks<Cell> | undefined,
  ) {
    super();
    this.parent = parent;
    this.label = label;
    this.kind = kind;
    this.f = f;
    this.options = options;
    this.hooks = hooks;
    // Made with the actor, not with its first message: then it would be young beside an old cell, which the collector
    // has to note for each.
    this.ctx = lifecycle.context(this);
  }

  override get name(): string {
    return typeof this.label === 'number' ? `$${this.label}` : this.label;
  }

  override get path(): string {
    let path = '';
    for (let cell: Cell = this; cell.parent !== undefined; cell = cell.parent) {
      path = path === '' ? pathSegment(cell.name) : `${pathSegment(cell.name)}/${path}`;
    }
    return `${this.kind.system.name}://${path}`;
  }

  /** Whether it is the root of a tree. */
  get isSystem(): boolean {
    return this.parent === undefined;
  }

  /** What handlers and policies get; made anew for whoever still asks once the actor has ended. */
  get context(): CrashContext<unknown> {
    if (this.ctx === undefined) this.ctx = lifecycle.context(this);
    return this.ctx;
  }

  /** A new life begins: the context of the former one is inert from here on. */
  renewContext(): void {
    this.ctx = lifecycle.context(this);
  }

  /** Whether this was the context of a life before the present one. */
  isFormer(context: CrashContext<unknown>): boolean {
    return this.ctx !== undefined && this.ctx !== context;
  }

  /** The rare parts, made when first needed. */
  get parts(): Rare<Cell> {
    if (this.rare === undefined) this.rare = new Rare<Cell>();
    return this.rare;
  }

  /** There is none before the first. */
  get children(): Children<Cell> | undefined {
    return this.rare?.children;
  }

  /** Nothing waits, nothing runs, nothing is pending. */
  get parked(): boolean {
    return (this.flags & (WAITING | RUNNING | HELD | RESETTING)) === 0 && !this.busy;
  }

  /** Whether it takes messages: it has not begun to end. */
  get taking(): boolean {
    return (this.flags & CLOSED) === 0;
  }

  /** Made when first asked for; aborted from the start when the actor is ending. */
  get signal(): AbortSignal {
    if ((this.flags & ENDED) !== 0) return AbortSignal.abort();
    const parts = this.parts;
    if (parts.controller === undefined) {
      parts.controller = new AbortController();
      if ((this.flags & (STOPPING | RESETTING)) !== 0) parts.controller.abort();
    }
    return parts.controller.signal;
  }

  /** Whether a handler or an initial state is pending. */
  get busy(): boolean {
    const rare = this.rare;
    return (
      rare !== undefined && (rare.running !== undefined || (rare.inflight !== undefined && rare.inflight.size > 0))
    );
  }

  override deliver(msg: unknown): void {
    const { queue } = this.kind;
    queue.wake();
    this.post(msg, queue.ms);
  }

  /** Puts a message into the mailbox, or refuses it. The time of the queue must be fresh (`wake`). */
  post(msg: unknown, meta: Meta): void {
    const flags = this.flags;
    const mailbox = this.mailbox;
    if (mailbox !== undefined && mailbox.length < mailbox.capacity && (flags & CLOSED) === 0) {
      // Where something waits, the actor is queued, or will go on with it by itself.
      mailbox.push(msg, meta);
    } else if ((flags & NOT_AT_ONCE) === 0) {
      this.slotMsg = msg;
      this.slotMeta = meta;
      this.flags = flags | SLOT | QUEUED;
      this.kind.queue.enqueue(this);
    } else this.postSlowly(msg, meta);
  }

  private postSlowly(msg: unknown, meta: Meta): void {
    if ((this.flags & CLOSED) !== 0) refuse(this, msg, meta);
    else if ((this.flags & (SLOT | PILE)) === 0) {
      this.slotMsg = msg;
      this.slotMeta = meta;
      this.flags |= SLOT;
    } else {
      const capacity = capacityOf(this.options);
      if ((this.flags & SLOT) !== 0 && capacity > 1) this.putSecond(msg, meta, capacity);
      else this.overflow(msg, meta);
    }
  }

  private overflow(msg: unknown, meta: Meta): void {
    this.kind.dropped++;
    const policy = this.options.mailbox?.policy;
    if (policy === 'drop-oldest') {
      const oldest = this.takeMail();
      shed(this, oldest, taken.meta, false);
      this.post(msg, meta);
    } else shed(this, msg, meta, policy !== 'drop-newest');
  }

  /** The state could not be made: hands the matter to supervision. */
  initFailed(error: unknown): void {
    lifecycle.crashed(this, undefined, 0, error, true);
  }

  /** Goes on with a stop or a reset that waited for something that is over. */
  advance(): void {
    lifecycle.advance(this);
  }

  /** What an ask gets that is not handled, or not to its end (`begun`), because the actor ends. */
  stoppedError(begun = false): ActorError {
    const reason = this.reason;
    const cause = reason !== undefined && 'error' in reason ? { cause: reason.error } : {};
    return new ActorError('stopped', `${this.path} has stopped`, { ...cause, begun });
  }

  /** Refuses all that wait. */
  flush(): void {
    while ((this.flags & WAITING) !== 0) {
      const msg = this.take();
      refuse(this, msg, taken.meta);
    }
    taken.meta = 0;
  }

  /** Handles up to `limit` messages. Called by the run queue only. */
  run(limit: number): number {
    const flags = this.flags & ~QUEUED;
    if ((flags & BLOCKED) !== 0) {
      this.flags = flags;
      return 0;
    }
    this.flags = flags | RUNNING;
    const { kind } = this;
    const isRare = kind.sampledAt !== kind.queue.ms || (flags & STATELESS) !== 0;
    const n = isRare ? this.runOtherwise(limit) : this.runStateful(limit);
    kind.handled += n;
    const after = this.flags;
    if ((after & RUNNING) !== 0) {
      this.flags = after & ~RUNNING;
      if ((after & GO_ON) !== 0) this.goOn();
    }
    return n;
  }

  /** What `run` seldom does, apart from it so that the compiler puts the rest into the queue's loop. */
  private runOtherwise(limit: number): number {
    const { kind } = this;
    return kind.sampledAt !== kind.queue.ms ? lifecycle.observe(this, limit) : this.runStateless(limit);
  }

  /** Handles up to `limit` messages, which `run` counts. */
  handle(limit: number): number {
    return (this.flags & STATELESS) !== 0 ? this.runStateless(limit) : this.runStateful(limit);
  }

  private runStateful(limit: number): number {
    // The field itself: it is there for as long as the actor runs, and the getter would be a call.
    const ctx = this.ctx;
    const f = this.f;
    let n = 0;
    let msg: unknown;
    let meta: Meta = 0;
    try {
      let flags = this.flags;
      while ((flags & WAITING) !== 0) {
        // As `take` does, but a message and its meta go no way round by `taken`.
        const mailbox = this.mailbox;
        if ((flags & SIGNALS) !== 0) {
          msg = this.takeSignal();
          meta = taken.meta;
        } else if (mailbox !== undefined) {
          msg = mailbox.take();
          meta = mailbox.meta;
          if (mailbox.length === 0) this.giveMailbox(mailbox);
        } else {
          msg = this.slotMsg;
          meta = this.slotMeta;
          this.emptySlot();
        }
        n++;
        if (typeof meta === 'number' || !this.isOver(meta)) {
          const state = this.state;
          const next = f(state, msg, ctx);
          if (next !== state) {
            if (isPromise(next)) {
              lifecycle.awaited(this, next, msg, meta, false);
              break;
            }
            this.state = next;
          }
        }
        flags = this.flags;
        if ((flags & BLOCKED) !== 0 || n >= limit) break;
      }
    } catch (error) {
      this.flags &= ~RUNNING;
      lifecycle.crashed(this, msg, meta, error, false);
    }
    return n;
  }

  private runStateless(limit: number): number {
    const ctx = this.ctx;
    const f = this.f;
    let n = 0;
    while (n < limit && (this.flags & BLOCKED) === 0 && (this.flags & WAITING) !== 0) {
      const msg = this.take();
      const meta = taken.meta;
      n++;
      if (typeof meta !== 'number' && this.isOver(meta)) continue;
      try {
        const result = f(msg, ctx);
        if (isPromise(result)) lifecycle.launched(this, result, msg, meta);
      } catch (error) {
        lifecycle.crashed(this, msg, meta, error, false);
      }
    }
    taken.meta = 0;
    return n;
  }

  /** Whether nobody would hear the reply: after an overload, to work such asks off would only make others late. */
  private isOver(ask: Exclude<Meta, number>): boolean {
    if (ask.open) return false;
    this.kind[ask.isCancelled ? 'cancelled' : 'expired']++;
    // Its turn counts in `run`, its message does not.
    this.kind.handled--;
    return true;
  }

  /** After a handler: goes on with what waits, or with the stop or reset that waited for it. */
  goOn(): void {
    const flags = this.flags;
    if ((flags & (STOPPING | RESETTING)) !== 0) {
      lifecycle.advance(this);
      return;
    }
    if ((flags & WAITING) !== 0) {
      if ((flags & NOT_NOW) !== 0) return;
      const { queue } = this.kind;
      queue.wake();
      this.flags |= QUEUED;
      queue.enqueue(this);
    } else if ((flags & WATCH_EMPTY) !== 0 && !this.busy) lifecycle.emptied(this);
  }

  /** Lets go of everything but the name, so that a ref that outlives its actor holds little. */
  forget(): void {
    this.state = undefined;
    this.ctx = undefined;
    this.rare = undefined;
    this.f = ended;
    this.options = noOptions;
  }
}

const ended: MessageHandler = () => undefined;
