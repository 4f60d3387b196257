import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellOf } from '../../supervision/cell/context.ts';
import {
  dispatch,
  entities,
  isFailure,
  type StopReason,
  spawn,
  start,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { TestSystem } from '../../supervision/testing/index.ts';
import { timersDue } from '../support/supervision/system.ts';

// The limits that hold when nobody says otherwise, and those of the platform below.

/** The reason a promise of an end has given so far. */
function reasonOf(end: Promise<StopReason>): () => StopReason | undefined {
  let reason: StopReason | undefined;
  void end.then((given) => {
    reason = given;
  });
  return () => reason;
}

test('a handler that never ends is waited for 5 s', async () => {
  const time = new TestSystem();
  const system = time.ref;
  const ref = spawn<undefined, string>(system, () => new Promise<undefined>(() => {}));
  dispatch(ref, 'hang');
  await time.advance(0);
  stop(ref);
  const reason = reasonOf(stopped(ref));
  await time.advance(4999);
  assert.equal(reason(), undefined);
  await time.advance(1);
  assert.deepEqual(reason(), { kind: 'stopped' });
});

test('an actor is reset 10 times, and the next crash ends it', async () => {
  const time = new TestSystem();
  const system = time.ref;
  const ref = spawn<undefined, string>(
    system,
    () => {
      throw new Error('x');
    },
    { onCrash: (_msg, _error, ctx) => ctx.reset },
  );
  const reason = reasonOf(stopped(ref));
  for (let i = 0; i < 10; i++) {
    dispatch(ref, 'x');
    await time.advance(1);
    assert.equal(reason(), undefined);
  }
  dispatch(ref, 'x');
  await time.advance(1);
  assert.equal(reason()?.kind, 'intensity');
  assert.equal(stats(system).kinds.actor?.restarts, 10);
});

test('an entity is activated again 5 times, after at most 5 s, and then cools down for 10 s', async () => {
  const time = new TestSystem();
  const system = time.ref;
  let activations = 0;
  const all = entities<string, object>(system, {
    kind: 'entity',
    sleepAfterMs: 600_000,
    activate: () => {
      activations++;
      return {};
    },
    handle: () => {
      throw new Error('x');
    },
  });
  for (let i = 1; i <= 6; i++) {
    all.tell('a', 'x');
    await time.advance(5000);
    assert.equal(activations, Math.min(i + 1, 6));
  }
  assert.equal(all.awake(), 0);
  const refused = (): Promise<string> =>
    all
      .ask('a', () => 'x', 1000)
      .then(
        () => 'replied',
        (error: Error) => error.message,
      );
  // 5 s have passed since the last crash.
  await time.advance(4999);
  assert.match(await refused(), /cools down/);
  await time.advance(1);
  const woken = refused();
  await time.advance(0);
  assert.doesNotMatch(await woken, /cools down/);
  assert.equal(activations, 7);
  stop(system);
});

test('which ends are failures', () => {
  const error = new Error('x');
  const failures: StopReason[] = [{ kind: 'crashed', error }, { kind: 'intensity', error }, { kind: 'killed' }];
  const others: StopReason[] = [{ kind: 'stopped' }, { kind: 'idle' }, { kind: 'parent' }, { kind: 'not_found' }];
  assert.ok(failures.every(isFailure));
  assert.ok(!others.some(isFailure));
});

test('a time longer than a timer of the platform can be does not pass at once', async () => {
  const system = start();
  const got: string[] = [];
  const ref = spawn<undefined, string>(
    system,
    (_, msg) => {
      got.push(msg);
      return undefined;
    },
    {
      shutdownAfter: 2 ** 31,
      initialStateFunc: (ctx) => {
        ctx.after(2 ** 31, 'after');
        ctx.every(2 ** 31, 'every');
        return undefined;
      },
    },
  );
  // A timer that overflows fires at once.
  await timersDue(system, 10);
  assert.deepEqual(got, []);
  assert.equal(stats(system).kinds.actor?.alive, 1);
  stop(ref);
  await stopped(ref);
});

test('the deadline of an ask is never rounded down, and above 256 ms up by less than 1%', () => {
  const { deadlines } = cellOf(start()).kind.queue;
  for (const ms of [1, 2, 17, 255, 256]) assert.equal(deadlines.list(ms).ms, ms);
  for (let ms = 257; ms < 100_000_000; ms = Math.ceil(ms * 1.37)) {
    const rounded = deadlines.list(ms).ms;
    assert.ok(rounded >= ms && rounded < ms * 1.01, `${ms} became ${rounded}`);
  }
});
