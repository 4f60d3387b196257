/** Asks whose asker gives up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  askSignal,
  dispatch,
  entities,
  query,
  type Ref,
  type SystemRef,
  spawn,
  spawnStateless,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type Asking, gate, rejectsWith, until, withSystem } from '../support/supervision/system.ts';

failOnLeaks();

const asking = <Reply>(replyTo: Ref<Reply>): Asking<Reply> => ({ replyTo });
const LONG_MS = 600_000;

for (const [what, make] of [
  [
    'a stateful actor',
    (system: SystemRef, handle: (msg: Asking<string>) => Promise<void>) =>
      spawn<void, Asking<string>>(system, (_, msg) => handle(msg), { kind: 'slow' }),
  ],
  [
    'a stateless actor',
    (system: SystemRef, handle: (msg: Asking<string>) => Promise<void>) =>
      spawnStateless(system, handle, { kind: 'slow' }),
  ],
] as const) {
  test(`${what} does not handle an ask whose asker gave up, and counts it apart`, () =>
    withSystem(async (system) => {
      const held = gate();
      let begun = 0;
      const slow = make(system, async ({ replyTo }) => {
        begun++;
        await held.opened;
        dispatch(replyTo, 'done');
      });
      const first = query(slow, asking<string>, LONG_MS);
      const leaving = new AbortController();
      const given = Array.from({ length: 10 }, () =>
        rejectsWith(query(slow, asking<string>, LONG_MS, { signal: leaving.signal }), 'cancelled'),
      );
      const expired = rejectsWith(query(slow, asking<string>, 1), 'timeout');
      const last = query(slow, asking<string>, LONG_MS, { signal: new AbortController().signal });
      const why = new Error('the client left');
      leaving.abort(why);
      for (const error of await Promise.all(given)) assert.equal(error.cause, why);
      await expired;
      held.open();
      assert.deepEqual(await Promise.all([first, last]), ['done', 'done']);
      const { handled, expired: late, cancelled } = stats(system).kinds.slow ?? {};
      assert.deepEqual({ begun, handled, late, cancelled }, { begun: 2, handled: 2, late: 1, cancelled: 10 });
    }));
}

test('an ask with a signal that is aborted already is not sent', () =>
  withSystem(async (system) => {
    let begun = 0;
    const actor = spawn<void, Asking<string>>(system, () => void begun++);
    await rejectsWith(query(actor, asking<string>, LONG_MS, { signal: AbortSignal.abort() }), 'cancelled');
    assert.equal(begun, 0);
  }));

test('a handler hears through the signal of its ask that the asker gave up, or that the deadline is over', () =>
  withSystem(async (system) => {
    const reasons: unknown[] = [];
    const worker = spawnStateless<Asking<string>>(
      system,
      ({ replyTo }) =>
        new Promise((resolve) => {
          const signal = askSignal(replyTo);
          assert.equal(askSignal(replyTo), signal);
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason.code);
            assert.ok(askSignal(replyTo).aborted);
            resolve();
          });
        }),
      { concurrency: 2 },
    );
    const leaving = new AbortController();
    const given = rejectsWith(query(worker, asking<string>, LONG_MS, { signal: leaving.signal }), 'cancelled');
    await rejectsWith(query(worker, asking<string>, 200), 'timeout');
    assert.deepEqual(reasons, ['timeout']);
    leaving.abort();
    await given;
    assert.deepEqual(reasons, ['timeout', 'cancelled']);
  }));

test('the signal of an ask that was answered is not aborted, and neither is that of another address', () =>
  withSystem(async (system) => {
    const signals: AbortSignal[] = [];
    const leaving = new AbortController();
    const actor = spawn<void, Asking<string>>(system, (_, { replyTo }) => {
      signals.push(askSignal(replyTo), askSignal(actor));
      dispatch(replyTo, 'done');
    });
    assert.equal(await query(actor, asking<string>, LONG_MS, { signal: leaving.signal }), 'done');
    leaving.abort();
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, false],
    );
  }));

test('an ask with the signal of its asker ends with that actor', () =>
  withSystem(async (system) => {
    const held = gate();
    let begun = 0;
    const slow = entities<Asking<string>, null>(system, {
      kind: 'slow',
      sleepAfterMs: LONG_MS,
      activate: () => null,
      async handle(state, { replyTo }) {
        begun++;
        await held.opened;
        dispatch(replyTo, 'done');
        return state;
      },
    });
    const first = slow.ask('one', asking<string>, LONG_MS);
    const asker = spawn<void, 'ask'>(system, (_state, _msg, ctx) => {
      void rejectsWith(slow.ask('one', asking<string>, LONG_MS, { signal: ctx.signal }), 'cancelled').then(() =>
        held.open(),
      );
    });
    dispatch(asker, 'ask');
    await until(() => begun === 1 && stats(system).kinds.slow?.depth === 1, 'the second ask waits');
    stop(asker);
    await stopped(asker);
    assert.equal(await first, 'done');
    await until(() => stats(system).kinds.slow?.cancelled === 1, 'the second ask was left out');
    assert.equal(begun, 1);
  }));
