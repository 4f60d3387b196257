import type { Decision } from '../decisions.ts';
import * as decisions from '../decisions.ts';
import { ActorError } from '../errors.ts';
import type { StopReason } from '../types.ts';
import { Ask } from './asks.ts';
import { isThenable } from './behaviour.ts';
import type { Cell } from './cell.ts';
import { ENDED, HELD, RESETTING, STATELESS, STOPPING } from './flags.ts';
import type { Meta } from './mailbox.ts';
import { release, requestReset, tooManyRestarts } from './restarting.ts';
import { requestStop } from './stopping.ts';

/** A crash on its way to a decision. */
interface Fault {
  readonly cell: Cell;
  readonly msg: unknown;
  readonly error: unknown;
  readonly reason: StopReason;
  /** The state could not be made: what waits for the actor will not be handled by it. */
  readonly init: boolean;
}

/** A handler or (`init`) the making of a state threw: the asker hears of it at once, then supervision decides. */
export function crashed(cell: Cell, msg: unknown, meta: Meta, error: unknown, init: boolean): void {
  cell.kind.failed++;
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
  const fault: Fault = { cell, msg, error, reason: { kind: 'crashed', error }, init };
  // A stateless actor has no state to protect: its other messages go on while this one is being decided.
  if ((cell.flags & STATELESS) === 0) {
    cell.flags |= HELD;
    cell.parts.fault = fault;
  }
  decide(cell, fault, undefined);
}

/** Asks the policy of `decider`. `child` is its child on whose behalf an escalation came up, if it is one. */
function decide(decider: Cell, fault: Fault, child: Cell | undefined): void {
  if (decider.parent === undefined) {
    apply(decider, fault, child, decisions.stopChild);
    return;
  }
  const onCrash = decider.options.onCrash;
  if (onCrash === undefined) {
    apply(decider, fault, child, defaultDecision(decider, child, fault.init));
    return;
  }
  let decision: Decision | Promise<Decision>;
  try {
    decision = onCrash(fault.msg, fault.error, decider.context, child);
  } catch (err) {
    policyFailed(decider, fault, child, err);
    return;
  }
  if (!isThenable(decision)) {
    apply(decider, fault, child, decision);
    return;
  }
  Promise.resolve(decision).then(
    (settled) => apply(decider, fault, child, settled),
    (err: unknown) => policyFailed(decider, fault, child, err),
  );
}

function defaultDecision(decider: Cell, child: Cell | undefined, init: boolean): Decision {
  const own = decider.hooks?.decision?.(child, init);
  if (own !== undefined) return own;
  return (decider.flags & STATELESS) !== 0 && child === undefined ? decisions.resume : decisions.stopSelf;
}

function policyFailed(decider: Cell, fault: Fault, child: Cell | undefined, err: unknown): void {
  decider.kind.system.log.error({ actor: decider.path, kind: decider.kind.kind, err }, 'onCrash failed: stopping');
  apply(decider, fault, child, decisions.stopSelf);
}

function apply(decider: Cell, fault: Fault, child: Cell | undefined, decision: Decision): void {
  const { cell } = fault;
  // A decision that took its time may find that everything has changed: the actor was stopped or reset by another one.
  if ((decider.flags & ENDED) !== 0) return;
  if ((cell.flags & STATELESS) === 0 && cell.rare?.fault !== fault) return;
  if (decider.parent !== undefined && isEscalation(decision)) {
    decide(decider.parent, fault, decider);
    return;
  }
  logDecision(decider, fault, decision);
  switch (decision) {
    case decisions.resume:
      break;
    case decisions.stopSelf:
      requestStop(decider, fault.reason, refusalOf(decider, fault));
      break;
    case decisions.stopAll:
      forEachChild(decider.parent, (peer) => requestStop(peer, fault.reason));
      break;
    case decisions.stopChild:
      requestStop(child ?? decider, fault.reason, refusalOf(child ?? decider, fault));
      break;
    case decisions.stopAllChildren:
      forEachChild(decider, (each) => requestStop(each, fault.reason));
      break;
    case decisions.reset:
      resetOr(decider, decider, fault);
      break;
    case decisions.resetAll:
      forEachChild(decider.parent, (peer) => resetOr(peer, peer, fault));
      break;
    case decisions.resetChild:
      resetOr(child ?? decider, decider, fault);
      break;
    case decisions.resetAllChildren:
      forEachChild(decider, (each) => resetOr(each, decider, fault));
      break;
  }
  if (cell.rare?.fault === fault && (cell.flags & (STOPPING | RESETTING)) === 0) release(cell);
}

const known = new Set<unknown>(Object.values(decisions));

/** Escalate, or nothing known: what a policy did not decide goes up. */
function isEscalation(decision: Decision): boolean {
  return decision === decisions.escalate || !known.has(decision);
}

/** Resets an actor, or hands the matter up when it crashed too often: to the parent of the one who wanted the reset. */
function resetOr(target: Cell, decider: Cell, fault: Fault): void {
  if (requestReset(target)) return;
  const error = tooManyRestarts(target, fault.error);
  const reason: StopReason = { kind: 'intensity', error: fault.error };
  const above = decider.parent;
  if (above === undefined || above.parent === undefined) {
    logDecision(decider, { ...fault, error }, decisions.stopSelf);
    requestStop(target, reason);
    return;
  }
  // The escalation is a fault of its own: the one it grew from has been decided.
  const next: Fault = { ...fault, cell: target, error, reason };
  target.flags |= HELD;
  target.parts.fault = next;
  decide(above, next, decider);
}

/** What the asks get that wait for an actor whose state cannot be made. */
function refusalOf(stopping: Cell, { cell, init, error }: Fault): ActorError | undefined {
  if (!init || stopping !== cell) return undefined;
  return new ActorError('crashed', `${cell.path} could not be started`, { cause: error });
}

function forEachChild(parent: Cell | undefined, f: (child: Cell) => void): void {
  const children: Cell[] = [];
  for (let child = parent?.children?.last; child !== undefined; child = child.before) children.push(child);
  // From a copy: what is done to one may end another.
  for (const child of children) f(child);
}

/** One line a crash, with its cause; never the message, which may hold secrets. */
function logDecision(decider: Cell, fault: Fault, decision: Decision): void {
  const { cell, error } = fault;
  const by = decider === cell ? {} : { decidedBy: decider.path };
  cell.kind.system.log.warn(
    { actor: cell.path, kind: cell.kind.kind, ...by, decision: decision.description, err: error },
    'actor crashed',
  );
}
