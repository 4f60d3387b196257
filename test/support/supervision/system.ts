import assert from 'node:assert/strict';
import { cellOf } from '../../../supervision/cell/context.ts';
import {
  ActorError,
  type ActorErrorCode,
  type DeadLetter,
  type Ref,
  type SystemRef,
  spawn,
  start,
  stop,
  stopped,
} from '../../../supervision/index.ts';
import { type KeptLog, keptLog } from '../log.ts';
import { until as untilTrue } from '../until.ts';

/** Resolves once `condition` holds, with looks close together; fails after `withinMs`. */
export async function until(condition: () => boolean, what: string, withinMs = 5000): Promise<void> {
  await untilTrue(condition, { what, timeoutMs: withinMs, everyMs: 1 });
}

/** A system with its log and dead letters; ended after `f`, whatever happened. */
export async function withSystem(
  f: (system: SystemRef, seen: { readonly lines: KeptLog['lines']; readonly letters: DeadLetter[] }) => Promise<void>,
): Promise<void> {
  const log = keptLog();
  const letters: DeadLetter[] = [];
  const system = start({ name: 'test', log, freezeMessages: true, onDeadLetter: (letter) => letters.push(letter) });
  try {
    await f(system, { lines: log.lines, letters });
  } finally {
    stop(system);
    await stopped(system);
  }
}

/** Resolves when timers of `ms` that actors have set before have fired: with one that is set now. */
export async function timersDue(system: SystemRef, ms: number): Promise<void> {
  const due = gate();
  const last = spawn<undefined, 'due'>(
    system,
    () => {
      due.open();
      return undefined;
    },
    {
      kind: 'last-timer',
      initialStateFunc: (ctx) => {
        ctx.after(ms, 'due');
        return undefined;
      },
    },
  );
  await due.opened;
  stop(last);
  await stopped(last);
}

/** Fails unless the promise rejects with an ActorError of that code; gives the error. */
export async function rejectsWith(promise: Promise<unknown>, code: ActorErrorCode): Promise<ActorError> {
  let caught: unknown;
  await promise.catch((error: unknown) => {
    caught = error;
  });
  assert.ok(caught instanceof ActorError, `expected an ActorError, got ${String(caught)}`);
  assert.equal(caught.code, code);
  return caught;
}

/** How many asks are open on the run queue of a system. */
export function openAsks(system: SystemRef): number {
  return cellOf(system).kind.queue.deadlines.waiting;
}

/** A promise and its resolver: a gate that a handler waits at. */
export function gate<T = void>(): { readonly opened: Promise<T>; readonly open: (value: T) => void } {
  let open: (value: T) => void = () => {};
  const opened = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** A message that wants a reply. */
export interface Asking<Reply> {
  readonly replyTo: Ref<Reply>;
}
