import type { Log } from '../../proto/ports/log.ts';
import { DECISIONS, type Decisions } from '../decisions.ts';
import { ActorError, SpawnError } from '../errors.ts';
import { type AnyRef, Ref } from '../ref.ts';
import { currentTrace } from '../tracing.ts';
import type { Cancel, CrashContext, StopReason } from '../types.ts';
import { Cell } from './cell.ts';
import { ChildrenView } from './children-view.ts';
import { after, every } from './timers.ts';
import { unwatch, watch } from './watches.ts';

/** The timer of a life that is over: none. */
const nothing: Cancel = () => {};

/** An actor as the context of a former life gives it: told and stopped like any, but nothing is spawned under it. */
class FormerSelf extends Ref<unknown> {
  readonly cell: Cell;

  constructor(cell: Cell) {
    super();
    this.cell = cell;
  }

  override get name(): string {
    return this.cell.name;
  }

  override get path(): string {
    return this.cell.path;
  }

  override deliver(msg: unknown): void {
    this.cell.deliver(msg);
  }
}

/**
 * The context of a local actor: one word of memory, the rest is looked up. A reset begins another life, with a context
 * of its own: a handler that was abandoned must not act in it.
 */
export class CellContext implements CrashContext<unknown> {
  protected readonly cell: Cell;
  declare readonly stop: Decisions['stop'];
  declare readonly stopAll: Decisions['stopAll'];
  declare readonly stopChild: Decisions['stopChild'];
  declare readonly stopAllChildren: Decisions['stopAllChildren'];
  declare readonly resume: Decisions['resume'];
  declare readonly reset: Decisions['reset'];
  declare readonly resetAll: Decisions['resetAll'];
  declare readonly resetChild: Decisions['resetChild'];
  declare readonly resetAllChildren: Decisions['resetAllChildren'];
  declare readonly escalate: Decisions['escalate'];

  constructor(cell: Cell) {
    this.cell = cell;
  }

  /** Whether a reset has ended the life that it belongs to. */
  protected get isFormer(): boolean {
    return this.cell.isFormer(this);
  }

  get self(): Ref<unknown> {
    return this.isFormer ? new FormerSelf(this.cell) : this.cell;
  }

  get parent(): AnyRef {
    return this.cell.parent ?? this.cell;
  }

  get name(): string {
    return this.cell.name;
  }

  get path(): string {
    return this.cell.path;
  }

  get children(): ReadonlyMap<string, AnyRef> {
    return new ChildrenView(this.cell);
  }

  get mailbox(): readonly unknown[] {
    return this.cell.waiting();
  }

  get trace(): string | undefined {
    return this.cell.kind.tracer === undefined ? undefined : currentTrace();
  }

  get log(): Log {
    return this.cell.kind.system.log.child({ actor: this.cell.path });
  }

  get signal(): AbortSignal {
    return this.isFormer ? AbortSignal.abort() : this.cell.signal;
  }

  watch(ref: AnyRef, toMessage: (reason: StopReason) => unknown): void {
    if (!this.isFormer) watch(this.cell, cellOf(ref), toMessage);
  }

  unwatch(ref: AnyRef): void {
    if (!this.isFormer) unwatch(this.cell, cellOf(ref));
  }

  after(ms: number, msg: unknown): Cancel {
    return this.isFormer ? nothing : after(this.cell, ms, msg);
  }

  every(ms: number, msg: unknown): Cancel {
    return this.isFormer ? nothing : every(this.cell, ms, msg);
  }
}

Object.assign(CellContext.prototype, DECISIONS);

/** The actor behind a ref. Throws SpawnError `invalid` for the address of an asker, which is no actor. */
export function cellOf(ref: AnyRef): Cell {
  if (ref instanceof Cell) return ref;
  if (ref instanceof FormerSelf) return ref.cell;
  throw new SpawnError('invalid', 'this ref does not belong to an actor');
}

/** `cellOf` for the parent of a new actor. Throws ActorError `stopped` for the `self` of a life that a reset ended. */
export function parentOf(ref: AnyRef): Cell {
  if (ref instanceof Cell) return ref;
  if (ref instanceof FormerSelf) throw new ActorError('stopped', `this life of ${ref.path} is over`);
  return cellOf(ref);
}
