import { isPromise } from '../../lib/waiting.ts';
import { ActorError } from '../errors.ts';
import type { StopReason } from '../types.ts';
import { Ask } from './asks.ts';
import type { Cell } from './cell.ts';
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
const withParent: StopReason = Object.freeze({ kind: 'parent' });
const killed: StopReason = Object.freeze({ kind: 'killed' });

/**
 * Begins the end of an actor: from here on it takes no message, those that wait are refused (asks at once), its timers
 * and watches are gone and its signal is aborted. `advanceStop` does the rest, step by step:
 *
 *   running handler ends or is abandoned -> children end -> afterStop ends or is abandoned -> ended
 */
export function requestStop(cell: Cell, reason: StopReason, refusal?: ActorError): void {
  if ((cell.flags & (STOPPING | ENDED)) !== 0) return;
  const broken = (cell.flags & RESETTING) !== 0 || cell.rare?.crash !== undefined;
  cell.flags = (cell.flags | STOPPING) & ~(HELD | RESETTING | CHILDREN_TOLD | CHILDREN_HOOK);
  cell.reason = reason;
  if (refusal !== undefined) cell.parts.refusal = refusal;
  if (cell.rare !== undefined) quieten(cell);
  if (broken) cell.hooks?.broken?.(cell);
  if (cell.hooks !== undefined) contain(cell, () => cell.hooks?.stopping?.(cell, reason));
  cell.flush();
  advanceStop(cell);
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
  if ((cell.flags & STOPPING) !== 0) clearTimeout(rare.idleTimer);
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

/** Goes on with a stop, as far as it can get now. Called whenever something it waits for is over. */
export function advanceStop(cell: Cell): void {
  if ((cell.flags & ENDED) !== 0 || (cell.flags & STOPPING) === 0 || (cell.flags & RUNNING) !== 0) return;
  if (cell.busy) {
    withGrace(cell, () => {
      abandon(cell, cell.stoppedError(true));
      advanceStop(cell);
    });
    return;
  }
  if ((cell.flags & CHILDREN_TOLD) === 0) {
    cell.flags |= CHILDREN_TOLD;
    endGrace(cell);
    stopChildren(cell);
    if ((cell.flags & ENDED) !== 0) return;
  }
  if ((cell.flags & CHILDREN_HOOK) !== 0) return;
  if (cell.children !== undefined && cell.children.count > 0) return;
  if ((cell.flags & AFTER_STOP) === 0) {
    cell.flags |= AFTER_STOP;
    runAfterStop(cell);
  }
}

/** Ends an actor and all below it at once: handlers are abandoned, afterStop is not called. */
export function kill(cell: Cell): void {
  if ((cell.flags & ENDED) !== 0) return;
  requestStop(cell, killed);
  if ((cell.flags & ENDED) !== 0) return;
  cell.reason = killed;
  cell.flags |= AFTER_STOP;
  for (let child = cell.children?.last; child !== undefined; child = cell.children?.last) kill(child);
  abandon(cell, cell.stoppedError(true));
  end(cell);
}

/** Stops the children, newest first. */
export function stopChildren(cell: Cell): void {
  const own = cell.hooks?.stopChildren;
  if (own !== undefined) {
    cell.flags |= CHILDREN_HOOK;
    own(cell)
      .catch((err: unknown) => cell.kind.system.log.error({ actor: cell.path, err }, 'stopping the children failed'))
      .finally(() => {
        cell.flags &= ~CHILDREN_HOOK;
        stopEach(cell);
        cell.advance();
      });
    return;
  }
  stopEach(cell);
}

function stopEach(cell: Cell): void {
  let child = cell.children?.last;
  while (child !== undefined) {
    const before: Cell | undefined = child.before;
    requestStop(child, withParent);
    // Its afterStop may have ended the one before: then from the last again, past those that are stopping.
    child = before !== undefined && (before.flags & ENDED) !== 0 ? cell.children?.last : before;
  }
}

/** Calls `late` after the actor's shutdownMs, unless the grace ends before. */
export function withGrace(cell: Cell, late: () => void): void {
  const parts = cell.parts;
  if (parts.grace !== undefined) return;
  parts.grace = new Timer(() => {
    parts.grace = undefined;
    late();
  }, cell.options.shutdownMs ?? DEFAULT_SHUTDOWN_MS);
}

export function endGrace(cell: Cell): void {
  if (cell.rare?.grace === undefined) return;
  cell.rare.grace.cancel();
  cell.rare.grace = undefined;
}

/** Stops waiting for pending handlers: their results are ignored, their asks get `error`. */
export function abandon(cell: Cell, error: ActorError): void {
  const rare = cell.rare;
  if (rare === undefined) return;
  const { running, inflight } = rare;
  rare.running = undefined;
  rare.inflight = undefined;
  cell.flags &= ~AWAITING;
  if (running === undefined && (inflight === undefined || inflight.size === 0)) return;
  cell.kind.system.log.warn({ actor: cell.path, kind: cell.kind.kind }, 'abandoned a handler that did not end in time');
  // A tell has been handled in part and is no dead letter.
  if (running !== undefined && running.meta instanceof Ask) running.meta.fail(error);
  if (inflight !== undefined) for (const { meta } of inflight) if (meta instanceof Ask) meta.fail(error);
}

function runAfterStop(cell: Cell): void {
  const afterStop = cell.options.afterStop;
  if (afterStop === undefined) {
    end(cell);
    return;
  }
  let result: unknown;
  try {
    result = afterStop(cell.state, cell.context);
  } catch (err) {
    afterStopFailed(cell, err);
  }
  if (!isPromise(result)) {
    end(cell);
    return;
  }
  withGrace(cell, () => {
    cell.kind.system.log.warn(
      { actor: cell.path, kind: cell.kind.kind },
      'abandoned an afterStop that did not end in time',
    );
    end(cell);
  });
  Promise.resolve(result)
    .catch((err: unknown) => afterStopFailed(cell, err))
    .finally(() => end(cell));
}

function afterStopFailed(cell: Cell, err: unknown): void {
  cell.kind.system.log.error({ actor: cell.path, kind: cell.kind.kind, err }, 'afterStop failed');
}

function end(cell: Cell): void {
  if ((cell.flags & ENDED) !== 0) return;
  endGrace(cell);
  // QUEUED stays as it is: the run queue may still hold the cell, which then does nothing.
  cell.flags = ENDED | (cell.flags & QUEUED);
  cell.kind.alive--;
  const reason = cell.reason ?? killed;
  const watchers = cell.rare?.watchers;
  const ended = cell.rare?.ended;
  const parent = cell.parent;
  const hooks = cell.hooks;
  cell.forget();
  if (parent !== undefined) unlink(parent, cell);
  if (hooks !== undefined) contain(cell, () => hooks.ended?.(cell, reason));
  tellWatchers(watchers, cell, reason);
  ended?.resolve(reason);
  if (parent !== undefined && (parent.flags & (STOPPING | RESETTING)) !== 0) parent.advance();
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
