import type { Cell } from '../cell/cell.ts';
import { cellOf } from '../cell/context.ts';
import { ENDED, RESETTING, STOPPING } from '../cell/flags.ts';
import { backoffDelay, countRestart } from '../cell/restarting.ts';
import { endOf, kill, requestStop } from '../cell/stopping.ts';
import { Timer } from '../cell/timer.ts';
import { after } from '../cell/timers.ts';
import { watch } from '../cell/watches.ts';
import { ActorError, SpawnError } from '../common/errors.ts';
import type { AnyRef, Ref } from '../common/ref.ts';
import { isFailure, type StopReason } from '../common/types.ts';
import type { ChildSpec, SupervisedChild, SupervisorSpec } from './child-spec.ts';

/** A child as it stands: `cell` while it is up. */
interface ChildEntry {
  readonly spec: ChildSpec;
  cell: Cell | undefined;
  /** With which others it is to be started again: the latest failure has the say. */
  due: readonly ChildEntry[] | undefined;
}

/** What who asked for something to be done hears; the child when one was started. */
export type ChildOutcome = { readonly cell: Cell | undefined } | { readonly error: unknown };

/** What a supervisor says to itself and is asked by the verbs for its children. */
export type SupervisorMessage =
  | { readonly type: 'ended'; readonly entry: ChildEntry; readonly cell: Cell; readonly reason: StopReason }
  | { readonly type: 'start'; readonly entries: readonly ChildEntry[] }
  | { readonly type: 'add'; readonly spec: ChildSpec; readonly replyTo: Ref<ChildOutcome> }
  | { readonly type: ChildVerb; readonly id: string; readonly replyTo: Ref<ChildOutcome> };

/** What can be asked for a child of the supervisor. */
type ChildVerb = 'terminate' | 'delete' | 'restart';

const byStrategy: StopReason = Object.freeze({ kind: 'stopped', detail: 'restarted with a sibling' });
const terminated: StopReason = Object.freeze({ kind: 'stopped', detail: 'terminated' });
const withParent: StopReason = Object.freeze({ kind: 'parent' });
/** The supervisor ends, or its present life does. */
const LEAVING = STOPPING | RESETTING;

/**
 * The children of one supervisor and what becomes of them. Its methods run one at a time, in the supervisor's handler.
 */
export class SupervisorState {
  private readonly spec: SupervisorSpec;
  private readonly entries = new Map<string, ChildEntry>();
  private readonly restarts: number[] = [];
  private ending: Promise<void> | undefined;
  /** The supervisor itself. */
  cell: Cell | undefined;
  /** Called when all children of the spec are up. */
  up: () => void = () => {};

  constructor(spec: SupervisorSpec) {
    this.spec = spec;
  }

  /** The child of that id while it is up. */
  child(id: string): Cell | undefined {
    const cell = this.entries.get(id)?.cell;
    return cell === undefined || (cell.flags & (STOPPING | ENDED)) !== 0 ? undefined : cell;
  }

  /** All children, in order. */
  children(): SupervisedChild[] {
    // Nobody starts them again.
    const isOver = ((this.cell?.flags ?? ENDED) & ENDED) !== 0;
    return Array.from(this.entries.values(), (entry) => {
      const { id, restart } = entry.spec;
      return { id, restart, status: isOver ? 'ended' : statusOf(entry), ref: this.child(id) };
    });
  }

  /** Starts the children of the spec, in order. Throws what the first failing start threw. */
  async startAll(self: Cell): Promise<void> {
    this.cell = self;
    this.entries.clear();
    for (const spec of this.spec.children) {
      if ((self.flags & LEAVING) !== 0) return;
      await this.start(self, this.enter(spec));
    }
  }

  /** Stops all children in reverse order, each within its deadline. */
  stopAll(): Promise<void> {
    // A stop in the midst of a reset waits for the same ends.
    this.ending ??= this.stopEach([...this.entries.values()], withParent).finally(() => {
      this.ending = undefined;
    });
    return this.ending;
  }

  async handle(self: Cell, msg: SupervisorMessage): Promise<void> {
    switch (msg.type) {
      case 'ended':
        if (msg.entry.cell === msg.cell) await this.ended(self, msg.entry, msg.reason);
        return;
      case 'start':
        await this.startAgain(self, msg.entries);
        return;
      case 'add':
        msg.replyTo.deliver(await this.add(self, msg.spec));
        return;
      default:
        msg.replyTo.deliver(await this.change(self, msg.type, msg.id));
        return;
    }
  }

  private async add(self: Cell, spec: ChildSpec): Promise<ChildOutcome> {
    if (this.entries.has(spec.id)) {
      return { error: new SpawnError('name_taken', `${self.path} already has a child ${spec.id}`) };
    }
    const entry = this.enter(spec);
    try {
      return { cell: await this.start(self, entry) };
    } catch (cause) {
      this.entries.delete(spec.id);
      return { error: new ActorError('crashed', `${self.path} could not start ${spec.id}`, { cause }) };
    }
  }

  private async change(self: Cell, verb: ChildVerb, id: string): Promise<ChildOutcome> {
    const entry = this.entries.get(id);
    if (entry === undefined) return { error: new SpawnError('not_found', `${self.path} has no child ${id}`) };
    if (verb === 'terminate') {
      entry.due = undefined;
      await this.stopEach([entry], terminated);
      if (entry.spec.restart === 'temporary') this.entries.delete(id);
      return { cell: undefined };
    }
    const status = statusOf(entry);
    if (status !== 'ended') return { error: new SpawnError(status, `the child ${id} of ${self.path} is ${status}`) };
    if (verb === 'delete') {
      this.entries.delete(id);
      return { cell: undefined };
    }
    try {
      const cell = await this.start(self, entry);
      cell.kind.restarts++;
      return { cell };
    } catch (cause) {
      return { error: new ActorError('crashed', `${self.path} could not start ${id}`, { cause }) };
    }
  }

  private enter(spec: ChildSpec): ChildEntry {
    if (this.entries.has(spec.id)) throw new SpawnError('name_taken', `two children have the id ${spec.id}`);
    const entry: ChildEntry = { spec, cell: undefined, due: undefined };
    this.entries.set(spec.id, entry);
    return entry;
  }

  private async start(self: Cell, entry: ChildEntry): Promise<Cell> {
    const cell = cellOf(await orStopped(self, entry.spec.start(self)));
    entry.cell = cell;
    entry.due = undefined;
    watch(self, cell, (reason) => ({ type: 'ended', entry, cell, reason }) satisfies SupervisorMessage);
    return cell;
  }

  private async ended(self: Cell, entry: ChildEntry, reason: StopReason): Promise<void> {
    entry.cell = undefined;
    const { restart, id } = entry.spec;
    if (restart === 'temporary') this.entries.delete(id);
    if (restart === 'permanent' || (restart === 'transient' && isFailure(reason))) {
      await this.restart(self, entry, 'error' in reason ? reason.error : reason.kind);
    }
  }

  /** Counts a restart; stops the supervisor if it was one too many. Whether it goes on. */
  private mayRestart(self: Cell, failed: ChildEntry, cause: unknown): boolean {
    if (countRestart(this.restarts, this.spec.intensity, self.kind.queue.clock.now())) return true;
    const { log } = self.kind.system;
    log.error({ actor: self.path, child: failed.spec.id, err: cause }, 'too many restarts: the supervisor stops');
    try {
      this.spec.onGivingUp?.(cause);
      if (self.parent?.isSystem) self.kind.system.onGivingUp?.(self.name, cause);
    } catch (err) {
      log.error({ actor: self.path, err }, 'onGivingUp failed');
    }
    requestStop(self, { kind: 'intensity', error: cause });
    return false;
  }

  /** Restarts what the strategy says, unless that was one restart too many. */
  private async restart(self: Cell, failed: ChildEntry, cause: unknown): Promise<void> {
    const { log } = self.kind.system;
    if (!this.mayRestart(self, failed, cause)) return;
    const affected = this.affected(failed);
    await this.stopEach(affected, byStrategy);
    const again = affected.filter((entry) => entry.spec.restart !== 'temporary');
    for (const entry of again) entry.due = again;
    for (const entry of affected) if (entry.spec.restart === 'temporary') this.entries.delete(entry.spec.id);
    const delay = backoffDelay(this.spec.backoff, this.restarts.length, self.kind.system.random);
    const restartMs = Math.round(delay);
    log.warn(
      { actor: self.path, child: failed.spec.id, strategy: this.spec.strategy, restartMs, err: cause },
      'restarting a child',
    );
    if ((self.flags & LEAVING) !== 0) return;
    if (delay > 0) after(self, delay, { type: 'start', entries: again } satisfies SupervisorMessage);
    else await this.startAgain(self, again);
  }

  private affected(failed: ChildEntry): ChildEntry[] {
    if (this.spec.strategy === 'one-for-one') return [failed];
    const all = [...this.entries.values()];
    return this.spec.strategy === 'one-for-all' ? all : all.slice(all.indexOf(failed));
  }

  private async startAgain(self: Cell, entries: readonly ChildEntry[]): Promise<void> {
    for (const entry of entries) {
      if ((self.flags & LEAVING) !== 0) return;
      // Another failure may have come meanwhile, and starts it in its own turn.
      if (entry.due !== entries || this.entries.get(entry.spec.id) !== entry) continue;
      try {
        (await this.start(self, entry)).kind.restarts++;
      } catch (cause) {
        if ((self.flags & LEAVING) === 0) this.restartRest(self, entries, entry, cause);
        return;
      }
    }
  }

  /** A restart failed halfway: it counts as another failure, and those after it wait for the next try. */
  private restartRest(self: Cell, entries: readonly ChildEntry[], failed: ChildEntry, cause: unknown): void {
    if (!this.mayRestart(self, failed, cause)) return;
    const { log } = self.kind.system;
    log.warn({ actor: self.path, child: failed.spec.id, err: cause }, 'a child could not be started again');
    const rest = entries.slice(entries.indexOf(failed));
    for (const entry of rest) if (entry.due === entries) entry.due = rest;
    // Through the mailbox even without a pause, so that what else happened is seen first.
    const delay = backoffDelay(this.spec.backoff, this.restarts.length, self.kind.system.random);
    if ((self.flags & STOPPING) === 0) after(self, delay, { type: 'start', entries: rest } satisfies SupervisorMessage);
  }

  private async stopEach(entries: readonly ChildEntry[], reason: StopReason): Promise<void> {
    for (let i = entries.length - 1; i >= 0; i--) {
      const entry = entries[i];
      const cell = entry?.cell;
      if (entry === undefined || cell === undefined) continue;
      entry.cell = undefined;
      await stopWithin(cell, reason, entry.spec.shutdownMs);
    }
  }
}

function statusOf({ cell, due }: ChildEntry): SupervisedChild['status'] {
  if (cell !== undefined) return 'running';
  return due === undefined ? 'ended' : 'restarting';
}

/** What `started` gives; rejects with `stopped` when the supervisor begins to stop before, so that it need not wait. */
function orStopped(self: Cell, started: AnyRef | Promise<AnyRef>): AnyRef | Promise<AnyRef> {
  if (!(started instanceof Promise)) return started;
  const { signal } = self;
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(self.stoppedError());
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    const settled = (): void => signal.removeEventListener('abort', abort);
    started.then(resolve, reject).finally(settled);
  });
}

/** Stops an actor; past the deadline it is killed. */
async function stopWithin(cell: Cell, reason: StopReason, shutdownMs: number): Promise<void> {
  requestStop(cell, reason);
  if ((cell.flags & ENDED) !== 0) return;
  const late = (): void => {
    cell.kind.system.log.warn({ actor: cell.path, shutdownMs }, 'killed: it did not stop in time');
    kill(cell);
  };
  const timer = new Timer(cell.kind.queue.clock, late, shutdownMs);
  await endOf(cell);
  timer.cancel();
}
