import { isPromise } from '../../lib/waiting.ts';
import type { Decision } from '../decisions.ts';
import * as decisions from '../decisions.ts';
import { ActorError } from '../errors.ts';
import type { StopReason } from '../types.ts';
import { Ask } from './asks.ts';
import type { Cell } from './cell.ts';
import { ENDED, HELD, RESETTING, STATELESS, STOPPING } from './flags.ts';
import { INITIAL_STATE, messageType } from './handlers.ts';
import { checked, lastResort } from './last-resort.ts';
import type { Meta } from './mailbox.ts';
import { onStack } from './observed.ts';
import { release, requestReset, tooManyRestarts } from './restarting.ts';
import { requestStop } from './stopping.ts';
import { inTime } from './timer.ts';

/** A crash on its way to a decision. */
interface Crash {
  readonly cell: Cell;
  readonly msg: unknown;
  readonly error: unknown;
  readonly reason: StopReason;
  /** The state could not be made: what waits for the actor will not be handled by it. */
  readonly init: boolean;
  /** The actor handles nothing until it is decided. A stateless one goes on, and may have ended by then. */
  readonly isHeld: boolean;
  /** Why the policy that it waits for was given up. */
  late?: ActorError;
}

const DEFAULT_DECISION_MS = 5000;

/** Something to do about a crash. It may add more, which then comes first: the next step is the last. */
type DecisionStep = (steps: DecisionStep[]) => void;

/** Does one step after the other, since a crash may come from deeper than the stack. Never throws. */
function work({ cell }: Crash, first: DecisionStep): void {
  const steps = [first];
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    try {
      step(steps);
    } catch (error) {
      lastResort(cell, error);
    }
  }
}

/** A handler or (`init`) the making of a state threw: the asker hears of it at once, then supervision decides. */
export function crashed(cell: Cell, msg: unknown, meta: Meta, error: unknown, init: boolean): void {
  cell.kind.failed++;
  if (!init) onStack.handler?.threw(error);
  cell.kind.system.crashes.add(cell.path, init ? INITIAL_STATE : messageType(cell, msg), error);
  if (meta instanceof Ask) meta.fail(new ActorError('crashed', `${cell.path} crashed`, { cause: error }));
  if ((cell.flags & ENDED) !== 0) return;
  if ((cell.flags & (STOPPING | RESETTING)) !== 0) {
    const whileDoing = (cell.flags & STOPPING) !== 0 ? 'stopping' : 'being reset';
    cell.kind.system.log.warn(
      { actor: cell.path, kind: cell.kind.kind, err: error },
      `actor crashed while ${whileDoing}`,
    );
    if ((cell.flags & STATELESS) === 0) cell.hooks?.broken?.(cell);
    cell.advance();
    return;
  }
  // A stateless actor has no state to protect: its other messages go on while this one is being decided.
  const isHeld = (cell.flags & STATELESS) === 0;
  const crash: Crash = { cell, msg, error, reason: { kind: 'crashed', error }, init, isHeld };
  if (isHeld) {
    cell.flags |= HELD;
    cell.parts.crash = crash;
  }
  checked(cell);
  work(crash, (steps) => decide(cell, crash, undefined, steps));
}

/** Asks the policy of `decider`. `child` is its child on whose behalf an escalation came up, if it is one. */
function decide(decider: Cell, crash: Crash, child: Cell | undefined, steps: DecisionStep[]): void {
  if (decider.parent === undefined) {
    apply(decider, crash, child, decisions.stopChild, steps);
    return;
  }
  let decision: Decision | PromiseLike<Decision>;
  try {
    const { onCrash } = decider.options;
    if (onCrash === undefined) decision = defaultDecision(decider, child, crash.init);
    else decision = onCrash(crash.msg, crash.error, decider.context, child);
    if (!isPromise(decision)) {
      const decided = decision;
      steps.push((next) => apply(decider, crash, child, decided, next));
      return;
    }
  } catch (err) {
    policyFailed(decider, crash, child, err, steps);
    return;
  }
  const late = (): string => `${decider.path} did not decide about a crash`;
  inTime(decider.kind.queue.clock, decision, decider.options.decisionMs ?? DEFAULT_DECISION_MS, late).then(
    (settled) => work(crash, (later) => apply(decider, crash, child, settled, later)),
    (err: unknown) => work(crash, (later) => policyFailed(decider, crash, child, err, later)),
  );
}

function defaultDecision(decider: Cell, child: Cell | undefined, init: boolean): Decision {
  const own = decider.hooks?.decision?.(child, init);
  if (own !== undefined) return own;
  return (decider.flags & STATELESS) !== 0 && child === undefined ? decisions.resume : decisions.stopSelf;
}

function policyFailed(decider: Cell, crash: Crash, child: Cell | undefined, err: unknown, steps: DecisionStep[]): void {
  decider.kind.system.log.error({ actor: decider.path, kind: decider.kind.kind, err }, 'onCrash failed: stopping');
  if (err instanceof ActorError && err.code === 'timeout') crash.late = err;
  apply(decider, crash, child, decisions.stopSelf, steps);
}

function apply(decider: Cell, crash: Crash, child: Cell | undefined, decision: Decision, steps: DecisionStep[]): void {
  const { cell } = crash;
  // A decision that took its time may find that everything has changed: the actor was stopped or reset by another one.
  if ((decider.flags & ENDED) !== 0) return;
  if (crash.isHeld && cell.rare?.crash !== crash) return;
  const above = decider.parent;
  if (above !== undefined && isEscalation(decision)) {
    steps.push((next) => decide(above, crash, decider, next));
    return;
  }
  logDecision(decider, crash, decision);
  // After all that the decision brings about.
  steps.push(() => {
    if (cell.rare?.crash === crash && (cell.flags & (STOPPING | RESETTING)) === 0) release(cell);
  });
  switch (decision) {
    case decisions.resume:
      break;
    case decisions.stopSelf:
      requestStop(decider, crash.reason, refusalOf(decider, crash));
      break;
    case decisions.stopAll:
      for (const peer of childrenOf(above)) requestStop(peer, crash.reason);
      break;
    case decisions.stopChild:
      requestStop(child ?? decider, crash.reason, refusalOf(child ?? decider, crash));
      break;
    case decisions.stopAllChildren:
      for (const each of childrenOf(decider)) requestStop(each, crash.reason);
      break;
    case decisions.reset:
      resetOr(decider, decider, crash, steps);
      break;
    case decisions.resetAll:
      for (const peer of childrenOf(above).reverse()) steps.push((next) => resetOr(peer, peer, crash, next));
      break;
    case decisions.resetChild:
      resetOr(child ?? decider, decider, crash, steps);
      break;
    case decisions.resetAllChildren:
      for (const each of childrenOf(decider).reverse()) steps.push((next) => resetOr(each, decider, crash, next));
      break;
  }
}

const known = new Set<unknown>(Object.values(decisions));

/** Escalate, or nothing known: what a policy did not decide goes up. */
function isEscalation(decision: Decision): boolean {
  return decision === decisions.escalate || !known.has(decision);
}

/** Resets an actor, or hands the matter up when it crashed too often: to the parent of the one who wanted the reset. */
function resetOr(target: Cell, decider: Cell, crash: Crash, steps: DecisionStep[]): void {
  if (requestReset(target)) return;
  const error = tooManyRestarts(target, crash.error);
  const reason: StopReason = { kind: 'intensity', error: crash.error };
  const above = decider.parent;
  if (above === undefined || above.parent === undefined) {
    logDecision(decider, { ...crash, error }, decisions.stopSelf);
    requestStop(target, reason);
    return;
  }
  // The escalation is a crash of its own: the one it grew from has been decided.
  const next: Crash = { ...crash, cell: target, error, reason, isHeld: true };
  target.flags |= HELD;
  target.parts.crash = next;
  steps.push((then) => decide(above, next, decider, then));
}

/** What the asks get that wait for an actor whose state cannot be made, or about which nobody decides. */
function refusalOf(stopping: Cell, { cell, init, error, late }: Crash): ActorError | undefined {
  if (stopping !== cell) return undefined;
  if (late !== undefined) return new ActorError('crashed', `${cell.path} crashed`, { cause: late });
  return init ? new ActorError('crashed', `${cell.path} could not be started`, { cause: error }) : undefined;
}

/** Newest first. A copy: what is done to one may end another. */
function childrenOf(parent: Cell | undefined): Cell[] {
  const children: Cell[] = [];
  for (let child = parent?.children?.last; child !== undefined; child = child.before) children.push(child);
  return children;
}

/** One line a crash, with its cause; never the message, which may hold secrets. */
function logDecision(decider: Cell, crash: Crash, decision: Decision): void {
  const { cell, error } = crash;
  const by = decider === cell ? {} : { decidedBy: decider.path };
  cell.kind.system.log.warn(
    { actor: cell.path, kind: cell.kind.kind, ...by, decision: decision.description, err: error },
    'actor crashed',
  );
}
