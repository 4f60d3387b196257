import { Cell } from '../cell/cell.ts';
import type { CellHooks } from '../cell/cell-parts.ts';
import { cellOf, parentOf } from '../cell/context.ts';
import { spawnCell } from '../cell/spawning.ts';
import { endOf } from '../cell/stopping.ts';
import * as decisions from '../common/decisions.ts';
import { ActorError, SpawnError } from '../common/errors.ts';
import type { AnyRef, Ref, SystemRef } from '../common/ref.ts';
import { askCell } from '../system/verbs.ts';
import { checkChild, checkSupervisor } from './check-spec.ts';
import type { ChildSpec, SupervisedChild, SupervisorSpec } from './child-spec.ts';
import { type ChildOutcome, type SupervisorMessage, SupervisorState } from './supervisor-state.ts';

/** A supervisor: to spawn under, watch, stop, and to ask for its children by id. It takes no messages. */
export type SupervisorRef = AnyRef;

const FOREVER_MS = 2_147_483_647;
const states = new WeakMap<AnyRef, SupervisorState>();

const hooks: CellHooks<Cell> = {
  // A child that escalates has failed: it ends as crashed, and the strategy restarts it.
  decision: (child) => (child === undefined ? decisions.stopSelf : decisions.stopChild),
  // The first life is up, and says so once it takes messages.
  admit: (cell) => {
    states.get(cell)?.up();
    return undefined;
  },
  stopChildren: (cell) => states.get(cell)?.stopAll() ?? Promise.resolve(),
};

/**
 * Starts a supervisor and its children, in order; resolves when all are up. When a start fails, those before it are
 * stopped in reverse and the promise rejects with ActorError `crashed`, its cause what the start threw.
 *
 * A child that ends is restarted as its spec and the strategy say. Past the intensity the supervisor stops itself with
 * reason `intensity`, which the supervisor above sees as the failure of a child. Throws SpawnError for a bad spec.
 */
export function startSupervisor(parent: AnyRef | SystemRef, spec: SupervisorSpec): Promise<SupervisorRef> {
  checkSupervisor(spec);
  const state = new SupervisorState(spec);
  return new Promise((resolve, reject) => {
    // Made state and messages are its own: the types below are what SupervisorState says.
    const cell = spawnCell(
      parentOf(parent),
      handler(state),
      {
        name: spec.name,
        kind: 'supervisor',
        // Children have deadlines of their own, and starting one may take its time.
        shutdownMs: FOREVER_MS,
        async initialStateFunc(ctx: { readonly self: AnyRef }) {
          const self = cellOf(ctx.self);
          states.set(self, state);
          state.up = () => resolve(self);
          await state.startAll(self);
        },
      },
      { hooks },
    );
    void endOf(cell).then((reason) => {
      if (reason.kind === 'crashed') {
        reject(new ActorError('crashed', `the supervisor ${spec.name} could not start`, { cause: reason.error }));
      } else reject(new ActorError('stopped', `the supervisor ${spec.name} was stopped`));
    });
  });
}

function handler(state: SupervisorState): (a: unknown, b: unknown) => unknown {
  const handle: ErasedChild['call'] = (_: unknown, msg: SupervisorMessage) =>
    state.cell === undefined ? undefined : state.handle(state.cell, msg);
  return handle;
}

interface ErasedChild {
  call(state: unknown, msg: unknown): unknown;
}

/** The ref of a child as it is now: undefined when there is none, or while it is being restarted. */
export function child(supervisor: SupervisorRef, id: string): AnyRef | undefined {
  return stateOf(supervisor).child(id);
}

/**
 * Starts another child, last in order. Rejects with SpawnError `name_taken`, with ActorError `crashed` when its start
 * threw (it is then not a child), or `stopped`; with SpawnError `invalid` for a bad spec.
 */
export async function startChild(supervisor: SupervisorRef, spec: ChildSpec): Promise<AnyRef> {
  checkChild(spec);
  return startedBy(supervisor, (replyTo) => ({ type: 'add', spec, replyTo }));
}

/**
 * Stops a child as Erlang/OTP's supervisor does: its spec stays (a temporary child's does not), so that it can be
 * restarted, alone or by a strategy that restarts others with it. Resolves when it has ended; also when there is none.
 * A restart that waits is off. Rejects with SpawnError `not_found`, or ActorError `stopped`.
 */
export async function terminateChild(supervisor: SupervisorRef, id: string): Promise<void> {
  await change(supervisor, (replyTo) => ({ type: 'terminate', id, replyTo }));
}

/**
 * Forgets a child that has ended, as Erlang/OTP's supervisor does: its id is free. Rejects with SpawnError `not_found`,
 * `running` or `restarting`, or ActorError `stopped`.
 */
export async function deleteChild(supervisor: SupervisorRef, id: string): Promise<void> {
  await change(supervisor, (replyTo) => ({ type: 'delete', id, replyTo }));
}

/**
 * Starts a child again that has ended, as Erlang/OTP's supervisor does; the intensity does not count it. Rejects with
 * SpawnError `not_found`, `running` or `restarting`, with ActorError `crashed` when the start threw (the child stays as
 * it was), or `stopped`.
 */
export function restartChild(supervisor: SupervisorRef, id: string): Promise<AnyRef> {
  return startedBy(supervisor, (replyTo) => ({ type: 'restart', id, replyTo }));
}

/** All children with their state, in the order in which they are started, as Erlang/OTP's supervisor tells them. */
export function whichChildren(supervisor: SupervisorRef): SupervisedChild[] {
  return stateOf(supervisor).children();
}

type MakeMessage = (replyTo: Ref<ChildOutcome>) => SupervisorMessage;

async function change(supervisor: SupervisorRef, make: MakeMessage): Promise<AnyRef | undefined> {
  stateOf(supervisor);
  const outcome = await askCell<SupervisorMessage, ChildOutcome>(cellOf(supervisor), make, FOREVER_MS);
  if ('error' in outcome) throw outcome.error;
  return outcome.cell;
}

async function startedBy(supervisor: SupervisorRef, make: MakeMessage): Promise<AnyRef> {
  const started = await change(supervisor, make);
  if (started === undefined) throw new TypeError('a start without a child');
  return started;
}

function stateOf(supervisor: SupervisorRef): SupervisorState {
  const state = states.get(supervisor);
  if (state === undefined || !(supervisor instanceof Cell)) throw new SpawnError('invalid', 'this is no supervisor');
  return state;
}
