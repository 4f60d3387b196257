import { isPromise } from '../../lib/waiting.ts';
import { ActorError } from '../errors.ts';
import type { StopReason } from '../types.ts';
import { Ask } from './asks.ts';
import type { Cell } from './cell.ts';
import type { CellHooks } from './cell-parts.ts';
import {
  AFTER_STOP,
  AWAITING,
  CHILDREN_HOOK,
  CHILDREN_TOLD,
  ENDED,
  HELD,
  QUEUED,
  RESETTING,
  RUNNING,
  STOPPING,
} from './flags.ts';
import { Timer } from './timer.ts';
import { cancelTimers } from './timers.ts';
import { tellWatchers, unwatchAll } from './watches.ts';

const DEFAULT_SHUTDOWN_MS = 5000;
/** The reason of those whose parent ends or is reset. */
export const withParent: StopReason = Object.freeze({ kind: 'parent' });
const killed: StopReason = Object.freeze({ kind: 'killed' });

/**
 * Begins the end of an actor: from here on it takes no message, those that wait are refused (asks at once), its timers
 * and watches are gone and its signal is aborted. `advanceStop` does the rest, step by step:
 *
 *   running handler ends or is abandoned -> children end -> afterStop ends or is abandoned -> ended
 */
export function requestStop(cell: Cell, reason: StopReason, refusal?: ActorError): void {
  if (beginStop(cell, reason, refusal)) cell.advance();
}

/** The beginning of a stop alone. False when the actor has begun to stop before. */
export function beginStop(cell: Cell, reason: StopReason, refusal?: ActorError): boolean {
  if ((cell.flags & (STOPPING | ENDED)) !== 0) return false;
  const broken = (cell.flags & RESETTING) !== 0 || cell.rare?.crash !== undefined;
  cell.flags = (cell.flags | STOPPING) & ~(HELD | RESETTING | CHILDREN_TOLD | CHILDREN_HOOK);
  cell.reason = reason;
  if (refusal !== undefined) cell.parts.refusal = refusal;
  if (cell.rare !== undefined) quieten(cell);
  if (cell.hooks !== undefined) tellHooks(cell, reason, broken);
  cell.flush();
  return true;
}

// Apart from `beginStop`: a function that makes closures makes a context for them each time, and most have no hooks.
function tellHooks(cell: Cell, reason: StopReason, broken: boolean): void {
  if (broken) contain(cell, () => cell.hooks?.broken?.(cell));
  contain(cell, () => cell.hooks?.stopping?.(cell, reason));
}

/** Ends what the present life of an actor began: timers, watches, signal, a pause or a decision that is pending. */
export function quieten(cell: Cell): void {
  const rare = cell.rare;
  if (rare === undefined) return;
  cancelTimers(cell);
  unwatchAll(cell);
  rare.crash = undefined;
  rare.pause?.cancel();
  rare.pause = undefined;
  if ((cell.flags & STOPPING) !== 0) rare.idleTimer?.close();
  const controller = rare.controller;
  if (controller !== undefined && !controller.signal.aborted) {
    // Listeners of the signal are the user's: what they throw is reported by Node as an uncaught exception otherwise.
    contain(cell, () => controller.abort());
  }
}

/** Resolves with the reason once the actor has ended. */
export function endOf(cell: Cell): Promise<StopReason> {
  if ((cell.flags & ENDED) !== 0) return Promise.resolve(cell.reason ?? killed);
  const parts = cell.parts;
  if (parts.ended === undefined) {
    let resolve: (reason: StopReason) => void = () => {};
    const promise = new Promise<StopReason>((settle) => {
      resolve = settle;
    });
    parts.ended = { promise, resolve };
  }
  return parts.ended.promise;
}

/**
 * Goes on with the stop of one actor, as far as it can get now. Puts the children that are to be told into `untold`.
 * Gives the actor above when this one has ended and that one waits for it.
 */
export function advanceStop(cell: Cell, untold: Cell[]): Cell | undefined {
  if ((cell.flags & ENDED) !== 0 || (cell.flags & RUNNING) !== 0) return undefined;
  const hasRare = cell.rare !== undefined;
  if (hasRare && cell.busy) {
    awaitHandlers(cell);
    return undefined;
  }
  if ((cell.flags & CHILDREN_TOLD) === 0) {
    cell.flags |= CHILDREN_TOLD;
    if (hasRare) endGrace(cell);
    if (cell.children !== undefined || cell.hooks !== undefined) stopChildren(cell, untold);
  }
  if ((cell.flags & (CHILDREN_HOOK | AFTER_STOP)) !== 0) return undefined;
  if (cell.children !== undefined && cell.children.count > 0) return undefined;
  cell.flags |= AFTER_STOP;
  return runAfterStop(cell);
}

/** Goes on with the stop once the handlers that run have ended or had their time. */
function awaitHandlers(cell: Cell): void {
  withGrace(cell, () => {
    abandon(cell, () => cell.stoppedError(true));
    cell.advance();
  });
}

/** Ends an actor and all below it at once: handlers are abandoned, afterStop is not called. */
export function kill(top: Cell): void {
  let cell: Cell | undefined = top;
  while (cell !== undefined) {
    requestStop(cell, killed);
    if ((cell.flags & ENDED) === 0) {
      cell.reason = killed;
      cell.flags |= AFTER_STOP;
      const child: Cell | undefined = cell.children?.last;
      if (child !== undefined) {
        cell = child;
        continue;
      }
      const leaf = cell;
      abandon(leaf, () => leaf.stoppedError(true));
      end(leaf)?.advance();
    }
    if (cell === top) return;
    cell = cell.parent;
  }
}

/** Has the children stopped, newest first: in their own way, or by whoever takes them from the end of `untold`. */
export function stopChildren(cell: Cell, untold: Cell[]): void {
  const own = cell.hooks?.stopChildren;
  if (own !== undefined) {
    cell.flags |= CHILDREN_HOOK;
    own(cell)
      .catch((err: unknown) => cell.kind.system.log.error({ actor: cell.path, err }, 'stopping the children failed'))
      .finally(() => {
        cell.flags &= ~CHILDREN_HOOK;
        const rest: Cell[] = [];
        listChildren(cell, rest);
        for (let child = rest.pop(); child !== undefined; child = rest.pop()) requestStop(child, withParent);
        cell.advance();
      });
    return;
  }
  listChildren(cell, untold);
}

/** From a copy: what is done to one may end another. */
function listChildren(cell: Cell, into: Cell[]): void {
  for (let child = cell.children?.first; child !== undefined; child = child.after) into.push(child);
}

/** Calls `late` after the actor's shutdownMs, unless the grace ends before. */
export function withGrace(cell: Cell, late: () => void): void {
  const parts = cell.parts;
  if (parts.grace !== undefined) return;
  const expired = (): void => {
    parts.grace = undefined;
    late();
  };
  parts.grace = new Timer(cell.kind.queue.clock, expired, cell.options.shutdownMs ?? DEFAULT_SHUTDOWN_MS);
}

export function endGrace(cell: Cell): void {
  if (cell.rare?.grace === undefined) return;
  cell.rare.grace.cancel();
  cell.rare.grace = undefined;
}

/** Stops waiting for pending handlers: their results are ignored, their asks get `makeError()`. */
export function abandon(cell: Cell, makeError: () => ActorError): void {
  const rare = cell.rare;
  if (rare === undefined) return;
  const { running, inflight } = rare;
  rare.running = undefined;
  rare.inflight = undefined;
  cell.flags &= ~AWAITING;
  if (running === undefined && (inflight === undefined || inflight.size === 0)) return;
  cell.kind.system.log.warn({ actor: cell.path, kind: cell.kind.kind }, 'abandoned a handler that did not end in time');
  const error = makeError();
  // A tell has been handled in part and is no dead letter.
  if (running !== undefined && running.meta instanceof Ask) running.meta.fail(error);
  if (inflight !== undefined) for (const { meta } of inflight) if (meta instanceof Ask) meta.fail(error);
}

function runAfterStop(cell: Cell): Cell | undefined {
  let result: unknown;
  try {
    const { afterStop } = cell.options;
    if (afterStop === undefined) return end(cell);
    result = afterStop(cell.state, cell.context);
    if (!isPromise(result)) return end(cell);
  } catch (err) {
    afterStopFailed(cell, err);
    return end(cell);
  }
  awaitAfterStop(cell, result);
  return undefined;
}

function awaitAfterStop(cell: Cell, result: unknown): void {
  withGrace(cell, () => {
    cell.kind.system.log.warn(
      { actor: cell.path, kind: cell.kind.kind },
      'abandoned an afterStop that did not end in time',
    );
    end(cell)?.advance();
  });
  Promise.resolve(result)
    .catch((err: unknown) => afterStopFailed(cell, err))
    .finally(() => end(cell)?.advance());
}

function afterStopFailed(cell: Cell, err: unknown): void {
  cell.kind.system.log.error({ actor: cell.path, kind: cell.kind.kind, err }, 'afterStop failed');
}

/** Gives the actor above when that one waits for the end. */
function end(cell: Cell): Cell | undefined {
  if ((cell.flags & ENDED) !== 0) return undefined;
  endGrace(cell);
  // QUEUED stays as it is: the run queue may still hold the cell, which then does nothing.
  cell.flags = ENDED | (cell.flags & QUEUED);
  cell.kind.alive--;
  const reason = cell.reason ?? killed;
  const watchers = cell.rare?.watchers;
  const ended = cell.rare?.ended;
  const parent = cell.parent;
  const hooks = cell.hooks;
  const { queue, watchdog } = cell.kind.system;
  if (parent === undefined) {
    watchdog?.close();
    queue.deadlines.close();
  } else watchdog?.leaves(cell);
  cell.forget();
  if (parent !== undefined) unlink(parent, cell);
  if (hooks !== undefined) tellEnded(cell, hooks, reason);
  if (watchers !== undefined) tellWatchers(watchers, cell, reason);
  ended?.resolve(reason);
  return parent !== undefined && (parent.flags & (STOPPING | RESETTING)) !== 0 ? parent : undefined;
}

function tellEnded(cell: Cell, hooks: CellHooks<Cell>, reason: StopReason): void {
  contain(cell, () => hooks.ended?.(cell, reason));
}

function unlink(parent: Cell, cell: Cell): void {
  const children = parent.children;
  if (children === undefined) return;
  if (cell.before === undefined) children.first = cell.after;
  else cell.before.after = cell.after;
  if (cell.after === undefined) children.last = cell.before;
  else cell.after.before = cell.before;
  cell.before = undefined;
  cell.after = undefined;
  children.count--;
  if (typeof cell.label === 'string' && children.names?.get(cell.label) === cell) children.names.delete(cell.label);
}

function contain(cell: Cell, f: () => void): void {
  try {
    f();
  } catch (err) {
    cell.kind.system.log.error({ actor: cell.path, err }, 'a callback threw while the actor stopped');
  }
}

/** The error a call under a stopped actor throws. */
export function stoppedParent(cell: Cell): ActorError {
  return new ActorError('stopped', `${cell.path} has stopped`);
}
