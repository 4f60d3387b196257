import type { Log } from '../../proto/ports/log.ts';
import * as decisions from '../decisions.ts';
import { SpawnError } from '../errors.ts';
import type { AnyRef, Ref } from '../ref.ts';
import type { Cancel, CrashContext, StopReason } from '../types.ts';
import { Cell } from './cell.ts';
import { ChildrenView } from './children-view.ts';
import { after, every } from './timers.ts';
import { unwatch, watch } from './watches.ts';

/** The context of a local actor: one word of memory, the rest is looked up. */
export class CellContext implements CrashContext<unknown> {
  protected readonly cell: Cell;

  constructor(cell: Cell) {
    this.cell = cell;
  }

  get self(): Ref<unknown> {
    return this.cell;
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

  get log(): Log {
    return this.cell.kind.system.log.child({ actor: this.cell.path });
  }

  get signal(): AbortSignal {
    return this.cell.signal;
  }

  watch(ref: AnyRef, toMessage: (reason: StopReason) => unknown): void {
    watch(this.cell, cellOf(ref), toMessage);
  }

  unwatch(ref: AnyRef): void {
    unwatch(this.cell, cellOf(ref));
  }

  after(ms: number, msg: unknown): Cancel {
    return after(this.cell, ms, msg);
  }

  every(ms: number, msg: unknown): Cancel {
    return every(this.cell, ms, msg);
  }

  get stop(): typeof decisions.stopSelf {
    return decisions.stopSelf;
  }

  get stopAll(): typeof decisions.stopAll {
    return decisions.stopAll;
  }

  get stopChild(): typeof decisions.stopChild {
    return decisions.stopChild;
  }

  get stopAllChildren(): typeof decisions.stopAllChildren {
    return decisions.stopAllChildren;
  }

  get resume(): typeof decisions.resume {
    return decisions.resume;
  }

  get reset(): typeof decisions.reset {
    return decisions.reset;
  }

  get resetAll(): typeof decisions.resetAll {
    return decisions.resetAll;
  }

  get resetChild(): typeof decisions.resetChild {
    return decisions.resetChild;
  }

  get resetAllChildren(): typeof decisions.resetAllChildren {
    return decisions.resetAllChildren;
  }

  get escalate(): typeof decisions.escalate {
    return decisions.escalate;
  }
}

/** The actor behind a ref. Throws SpawnError `invalid` for the address of an asker, which is no actor. */
export function cellOf(ref: AnyRef): Cell {
  if (ref instanceof Cell) return ref;
  throw new SpawnError('invalid', 'this ref does not belong to an actor');
}
