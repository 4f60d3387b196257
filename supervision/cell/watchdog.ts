import type { ClockTimer } from '../environment.ts';
import type { Cell } from './cell.ts';
import type { AsyncRun } from './cell-parts.ts';
import { following, typeOfRun } from './handlers.ts';
import type { RunQueue } from './run-queue.ts';

/** Longest time between two looks, ms. */
const LOOK_MS = 250;
/** How long a look may hold the event loop, ms. */
const SLICE_MS = 1;
/** Actors between two looks at the time. */
const STRIDE = 256;
/** Handlers that are named at a time. More than so many have one cause. */
const MAX_NAMED = 100;

/**
 * Names handlers that run for longer than a bound in the log: when they pass it, and when they end. It costs messages
 * nothing, since it walks through the living actors, a slice at a time: a million of them take some seconds.
 */
export class Watchdog {
  private readonly root: Cell;
  private readonly boundMs: number;
  private readonly queue: RunQueue;
  private timer: ClockTimer | undefined;
  /** The actor that is next; undefined: the walk begins anew. */
  private cursor: Cell | undefined = undefined;
  private readonly named = new Map<AsyncRun, { readonly cell: Cell; readonly fields: object }>();
  /** Beyond MAX_NAMED, in this walk and in the one before. */
  private unnamed = 0;
  private unnamedBefore = 0;

  constructor(root: Cell, boundMs: number) {
    this.root = root;
    this.boundMs = boundMs;
    this.queue = root.kind.queue;
    this.arm();
  }

  /** Before an actor leaves the tree. */
  leaves(cell: Cell): void {
    if (this.cursor === cell) this.cursor = following(cell, this.root);
  }

  close(): void {
    this.timer?.close();
  }

  private arm(): void {
    this.timer = this.queue.clock.setTimeout(
      () => {
        this.look();
        this.arm();
      },
      Math.min(LOOK_MS, Math.max(1, this.boundMs / 4)),
    );
    this.timer.unref();
  }

  private look(): void {
    this.queue.touch();
    for (const [run, { cell, fields }] of this.named) {
      if (isPending(cell, run)) continue;
      this.named.delete(run);
      this.warn({ ...fields, ms: this.queue.ageOf(run.since) }, 'a handler that ran for long is over');
    }
    const until = this.queue.clock.now() + SLICE_MS;
    let next = this.cursor ?? this.begin();
    for (let seen = 1; next !== undefined; seen++) {
      if (next.busy) this.inspect(next);
      next = following(next, this.root);
      if (seen % STRIDE === 0 && this.queue.clock.now() > until) break;
    }
    this.cursor = next;
  }

  private begin(): Cell | undefined {
    if (this.unnamed > 0 && this.unnamedBefore === 0) {
      this.warn({ handlers: this.unnamed }, 'more handlers than can be named run for long');
    }
    this.unnamedBefore = this.unnamed;
    this.unnamed = 0;
    return this.root.children?.first;
  }

  private inspect(cell: Cell): void {
    const { rare } = cell;
    if (rare?.running !== undefined) this.judge(cell, rare.running);
    for (const run of rare?.inflight ?? []) this.judge(cell, run);
  }

  private judge(cell: Cell, run: AsyncRun): void {
    const ms = this.queue.ageOf(run.since);
    if (ms < this.boundMs || this.named.has(run)) return;
    if (this.named.size >= MAX_NAMED) {
      this.unnamed++;
      return;
    }
    // Read now: once the actor has ended, these are gone.
    const fields = { actor: cell.path, kind: cell.kind.kind, message: typeOfRun(cell, run) };
    this.named.set(run, { cell, fields });
    this.warn({ ...fields, ms }, 'a handler runs for long');
  }

  private warn(fields: object, text: string): void {
    this.root.kind.system.log.warn(fields, text);
  }
}

function isPending({ rare }: Cell, run: AsyncRun): boolean {
  return rare?.running === run || rare?.inflight?.has(run) === true;
}
