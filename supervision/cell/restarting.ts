import { backoffMs, HALF_JITTER, isPromise } from '../../lib/waiting.ts';
import { ActorError } from '../errors.ts';
import type { Backoff, Intensity } from '../types.ts';
import type { Cell } from './cell.ts';
import { CHILDREN_HOOK, CHILDREN_TOLD, ENDED, HELD, RESETTING, RUNNING, SLEEPY, STOPPING } from './flags.ts';
import { keepAwake } from './idle.ts';
import { checked } from './last-resort.ts';
import { awaitRun } from './pending.ts';
import { abandon, endGrace, quieten, requestStop, stopChildren, withGrace } from './stopping.ts';
import { Timer } from './timer.ts';

const DEFAULT_INTENSITY: Intensity = Object.freeze({ max: 10, withinMs: 10_000 });

/** Notes a restart now. Whether it is one of at most `max` within the window; `times` holds what counts. */
export function countRestart(times: number[], intensity: Intensity, now: number): boolean {
  while (times.length > 0 && (times[0] ?? 0) <= now - intensity.withinMs) times.shift();
  if (times.length >= intensity.max) return false;
  times.push(now);
  return true;
}

/** The pause before the n-th restart (from 1): doubling up to the maximum, its second half random. */
export function backoffDelay(backoff: Backoff | undefined, n: number, random: () => number): number {
  return backoff === undefined ? 0 : backoffMs(n - 1, backoff, HALF_JITTER, random);
}

/** Makes the state, at spawn and after a reset. Messages wait while it is pending. */
export function initialise(cell: Cell): void {
  cell.flags |= HELD;
  // As if a handler ran: a stop from within waits until the state is there.
  cell.flags |= RUNNING;
  let state: unknown;
  let pending = false;
  try {
    const { initialStateFunc, initialState } = cell.options;
    state = initialStateFunc === undefined ? initialState : initialStateFunc(cell.context);
    if (initialStateFunc !== undefined && isPromise(state)) {
      const { queue } = cell.kind;
      queue.touch();
      awaitRun(cell, state, undefined, queue.ms, true);
      pending = true;
    }
  } catch (error) {
    cell.flags &= ~RUNNING;
    cell.initFailed(error);
    return;
  }
  cell.flags &= ~RUNNING;
  if (pending) cell.advance();
  else initialised(cell, state);
}

/** The state is there. */
export function initialised(cell: Cell, state: unknown): void {
  if ((cell.flags & (STOPPING | RESETTING)) !== 0) {
    cell.state = state;
    cell.goOn();
    return;
  }
  const refusal = cell.hooks?.admit?.(cell, state);
  if (refusal !== undefined) {
    requestStop(cell, { kind: 'not_found' }, refusal);
    return;
  }
  cell.state = state;
  release(cell);
}

/** Lets messages through again. */
export function release(cell: Cell): void {
  if ((cell.flags & (STOPPING | ENDED)) !== 0) return;
  cell.flags &= ~(HELD | RESETTING | CHILDREN_TOLD);
  if (cell.rare !== undefined) cell.rare.crash = undefined;
  checked(cell);
  cell.goOn();
}

/**
 * Starts an actor afresh: its children end, its timers, watches and signal too, then its state is made anew; its
 * mailbox stays. Returns false when it had too many restarts within its window, and does nothing then.
 */
export function requestReset(cell: Cell): boolean {
  if ((cell.flags & (STOPPING | ENDED | RESETTING)) !== 0) return true;
  const parts = cell.parts;
  if (parts.restarts === undefined) parts.restarts = [];
  const { queue } = cell.kind;
  queue.touch();
  if (!countRestart(parts.restarts, cell.options.intensity ?? DEFAULT_INTENSITY, queue.exact)) return false;
  cell.kind.restarts++;
  keepAwake(cell, false);
  cell.flags = (cell.flags | HELD | RESETTING) & ~(SLEEPY | CHILDREN_TOLD);
  quieten(cell);
  cell.advance();
  return true;
}

/**
 * Goes on with the reset of one actor, as far as it can get now: running handler, children, pause, new state. Puts the
 * children that are to be told into `untold`.
 */
export function advanceReset(cell: Cell, untold: Cell[]): void {
  if ((cell.flags & RUNNING) !== 0) return;
  if (cell.busy) {
    withGrace(cell, () => {
      abandon(cell, () =>
        cell.taking ? new ActorError('crashed', `${cell.path} was reset`) : cell.stoppedError(true),
      );
      // It may have been stopped since.
      cell.advance();
    });
    return;
  }
  if ((cell.flags & CHILDREN_TOLD) === 0) {
    cell.flags |= CHILDREN_TOLD;
    endGrace(cell);
    cell.renewContext();
    // Again: the handler that just ended belonged to the former life, and so does what it began since.
    quieten(cell);
    stopChildren(cell, untold);
  }
  if ((cell.flags & CHILDREN_HOOK) !== 0) return;
  if (cell.children !== undefined && cell.children.count > 0) return;
  const parts = cell.parts;
  if (parts.pause !== undefined) return;
  const delay = backoffDelay(cell.options.backoff, parts.restarts?.length ?? 1, cell.kind.system.random);
  // Even without a backoff the new life begins from the loop: a state that cannot be made must not recurse.
  const begin = (): void => {
    parts.pause = undefined;
    parts.controller = undefined;
    cell.flags &= ~(RESETTING | CHILDREN_TOLD);
    cell.state = undefined;
    initialise(cell);
  };
  parts.pause = new Timer(cell.kind.queue.clock, begin, delay / cell.kind.system.pace);
}

/** The error that is escalated when an actor had too many restarts. */
export function tooManyRestarts(cell: Cell, cause: unknown): ActorError {
  return new ActorError('crashed', `${cell.path} crashed too often`, { cause });
}
