import { Ask, givenUp } from './cell/asks.ts';
import type { Cell } from './cell/cell.ts';
import { noOptions } from './cell/cell-parts.ts';
import { cellOf, parentOf } from './cell/context.ts';
import { ENDED, STOPPING } from './cell/flags.ts';
import { spawnCell } from './cell/spawning.ts';
import { endOf, requestStop } from './cell/stopping.ts';
import { askTraced } from './cell/traced-cell.ts';
import { atLeast } from './errors.ts';
import type { AnyRef, Ref, SystemRef } from './ref.ts';
import { currentTrace } from './tracing.ts';
import type { Context, QueryOptions, SpawnOptions, StatelessOptions, StopReason } from './types.ts';

/**
 * Makes an actor under `parent`. `f` gets one message at a time and returns the next state, or a promise of it.
 * Throws ActorError `stopped` when the parent has ended, is ending or between two lives, SpawnError for a name in use
 * or a bad option.
 */
export function spawn<State, Msg>(
  parent: AnyRef | SystemRef,
  f: (state: State, msg: Msg, ctx: Context<Msg>) => State | Promise<State>,
  options?: SpawnOptions<State, Msg>,
): Ref<Msg> {
  if (options === undefined) return spawnCell(parentOf(parent), erase(f), noOptions);
  return spawnCell(parentOf(parent), erase(f), options);
}

/** Makes an actor without state that handles up to `concurrency` messages at once. A throw loses that message only. */
export function spawnStateless<Msg>(
  parent: AnyRef | SystemRef,
  f: (msg: Msg, ctx: Context<Msg>) => void | Promise<void>,
  options?: StatelessOptions<Msg>,
): Ref<Msg> {
  const concurrency = atLeast(1, options?.concurrency ?? 1, 'concurrency');
  if (options === undefined) return spawnCell(parentOf(parent), erase(f), noOptions, { concurrency });
  return spawnCell(parentOf(parent), erase(f), options, { concurrency });
}

/** A handler with its types forgotten, through the one kind of parameter that compares both ways: a method's. */
function erase(f: Erased['call']): Erased['call'] {
  return f;
}

interface Erased {
  call(a: unknown, b: unknown, c?: unknown): unknown;
}

/** Sends a message and does not wait. To an actor that has ended, or whose mailbox is full, it is a dead letter. */
export function dispatch<Msg>(ref: Ref<Msg>, msg: Msg): void {
  ref.deliver(msg);
}

/**
 * Sends the message made around a reply address, and waits at most `timeoutMs` for the reply. Rejects with ActorError.
 */
export function query<Msg, Reply>(
  ref: Ref<Msg>,
  make: (replyTo: Ref<Reply>) => Msg,
  timeoutMs: number,
  options?: QueryOptions,
): Promise<Reply> {
  return askCell(cellOf(ref), make, timeoutMs, options?.signal);
}

/** `query` for the engine: the same, of a cell. */
export function askCell<Msg, Reply>(
  cell: Cell,
  make: (replyTo: Ref<Reply>) => Msg,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Reply> {
  atLeast(Number.MIN_VALUE, timeoutMs, 'timeoutMs');
  if ((cell.flags & (STOPPING | ENDED)) !== 0) return Promise.reject(cell.rare?.refusal ?? cell.stoppedError());
  const { system } = cell.kind;
  system.queue.wake();
  const { tracer } = cell.kind;
  const parent = tracer === undefined ? undefined : currentTrace();
  if (tracer !== undefined && parent !== undefined) return askTraced(cell, make, timeoutMs, { tracer, parent, signal });
  if (signal !== undefined) return askWithSignal(cell, make, timeoutMs, signal);
  return new Promise<Reply>((resolve, reject) => {
    send(cell, make, new Ask(cell, system, timeoutMs, resolve, reject), reject);
  });
}

/** The same, until the signal is aborted. */
function askWithSignal<Msg, Reply>(
  cell: Cell,
  make: (replyTo: Ref<Reply>) => Msg,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Reply> {
  if (signal.aborted) return Promise.reject(givenUp(cell.path, signal));
  let made: Ask | undefined;
  const reply = new Promise<Reply>((resolve, reject) => {
    made = new Ask(cell, cell.kind.system, timeoutMs, resolve, reject);
    send(cell, make, made, reject);
  });
  made?.cancelWith(signal, reply);
  return reply;
}

function send<Msg, Reply>(
  cell: Cell,
  make: (replyTo: Ref<Reply>) => Msg,
  ask: Ask,
  reject: (error: unknown) => void,
): void {
  try {
    cell.post(make(ask), ask);
  } catch (error) {
    ask.drop();
    reject(error);
  }
}

/**
 * For what a handler does on behalf of its asker: aborted when the asker gives up or its deadline is over, and from the
 * start if the ask is over. For an address that belongs to no ask it is never aborted.
 */
export function askSignal<Reply>(replyTo: Ref<Reply>): AbortSignal {
  return replyTo instanceof Ask ? replyTo.signal : new AbortController().signal;
}

/**
 * Begins the end of an actor, or of a whole system: no further message is handled, the running one may finish within
 * `shutdownMs`, its children end first. `reason` is what watchers read as `detail`. Repeating it does nothing.
 */
export function stop(ref: AnyRef | SystemRef, reason?: string): void {
  requestStop(cellOf(ref), reason === undefined ? { kind: 'stopped' } : { kind: 'stopped', detail: reason });
}

/** Resolves with the reason once the actor and all its children have ended; at once when they have. Never rejects. */
export function stopped(ref: AnyRef | SystemRef): Promise<StopReason> {
  return endOf(cellOf(ref));
}
