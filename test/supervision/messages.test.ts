import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dispatch, query, type Ref, spawn, spawnStateless, stats, stop } from '../../supervision/index.ts';
import { type Asking, gate, rejectsWith, until, withSystem } from '../support/supervision/system.ts';

test('messages from one sender arrive in the order they were sent, over many chunks', () =>
  withSystem(async (system) => {
    const got: number[] = [];
    const sink = spawn<undefined, number>(system, (_, n) => {
      got.push(n);
      return undefined;
    });
    for (let i = 0; i < 5000; i++) dispatch(sink, i);
    await until(() => got.length === 5000, 'all messages');
    assert.deepEqual(
      got,
      Array.from({ length: 5000 }, (_, i) => i),
    );
  }));

test('an async handler keeps the next message waiting, and its state is the next state', () =>
  withSystem(async (system) => {
    let running = 0;
    let most = 0;
    const sum = spawn<number, { add: number; replyTo?: Ref<number> }>(
      system,
      async (state, { add, replyTo }) => {
        running++;
        most = Math.max(most, running);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
        if (replyTo !== undefined) dispatch(replyTo, state + add);
        return state + add;
      },
      { initialState: 0 },
    );
    for (let i = 1; i <= 9; i++) dispatch(sum, { add: i });
    assert.equal(await query(sum, (replyTo: Ref<number>) => ({ add: 10, replyTo }), 1000), 55);
    assert.equal(most, 1);
  }));

test('a thenable state is waited for like a promise', () =>
  withSystem(async (system) => {
    const counter = spawn<number, Asking<number>>(
      system,
      (state, { replyTo }) => {
        dispatch(replyTo, state);
        return Promise.resolve(state + 1);
      },
      { initialState: 0 },
    );
    assert.equal(await query(counter, (replyTo: Ref<number>) => ({ replyTo }), 1000), 0);
    assert.equal(await query(counter, (replyTo: Ref<number>) => ({ replyTo }), 1000), 1);
  }));

test('a stateless actor works on as many messages at once as it may, and no more', () =>
  withSystem(async (system) => {
    let running = 0;
    let most = 0;
    let done = 0;
    const gates = Array.from({ length: 10 }, () => gate());
    const pool = spawnStateless<number>(
      system,
      async (n) => {
        running++;
        most = Math.max(most, running);
        await gates[n]?.opened;
        running--;
        done++;
      },
      { concurrency: 3 },
    );
    for (let i = 0; i < 10; i++) dispatch(pool, i);
    await until(() => running === 3, 'three running');
    assert.equal(stats(system).kinds.actor?.depth, 7);
    for (const { open } of gates) open();
    await until(() => done === 10, 'all done');
    assert.equal(most, 3);
  }));

test('a stateless actor survives a throw of one message, sync or async', () =>
  withSystem(async (system, { lines }) => {
    const echo = spawnStateless<Asking<string> & { fail: 'sync' | 'async' | 'no' }>(system, ({ replyTo, fail }) => {
      if (fail === 'sync') throw new Error('sync');
      if (fail === 'async') return Promise.reject(new Error('async'));
      dispatch(replyTo, 'fine');
      return undefined;
    });
    const ask = (fail: 'sync' | 'async' | 'no') => query(echo, (replyTo: Ref<string>) => ({ replyTo, fail }), 1000);
    await rejectsWith(ask('sync'), 'crashed');
    await rejectsWith(ask('async'), 'crashed');
    assert.equal(await ask('no'), 'fine');
    assert.deepEqual(
      lines.map((line) => line.fields.decision),
      ['resume', 'resume'],
    );
  }));

const stuckSink = (capacity: number, policy?: 'reject' | 'drop-oldest' | 'drop-newest') => ({
  name: 'sink',
  kind: 'sink',
  mailbox: { capacity, ...(policy === undefined ? {} : { policy }) },
});

for (const [policy, kept, letters] of [
  ['reject', [0, 1, 2, 3], [4, 5]],
  ['drop-newest', [0, 1, 2, 3], []],
  ['drop-oldest', [0, 3, 4, 5], []],
] as const) {
  test(`a full mailbox with policy ${policy} keeps its bound, counts what it drops, and fails asks as overloaded`, () =>
    withSystem(async (system, seen) => {
      const blocked = gate();
      const got: unknown[] = [];
      const sink = spawn<undefined, number | Asking<string>>(
        system,
        async (_, msg) => {
          got.push(msg);
          await blocked.opened;
          return undefined;
        },
        stuckSink(3, policy),
      );
      dispatch(sink, 0);
      await until(() => got.length === 1, 'the first message is being handled');
      for (let i = 1; i <= 5; i++) dispatch(sink, i);
      assert.equal(stats(system).kinds.sink?.depth, 3);
      assert.equal(stats(system).kinds.sink?.dropped, 2);
      assert.deepEqual(
        seen.letters.map(({ reason, message }) => [reason, message]),
        letters.map((n) => ['overloaded', n]),
      );
      if (policy !== 'drop-oldest') {
        await rejectsWith(
          query(sink, (replyTo: Ref<string>) => ({ replyTo }), 1000),
          'overloaded',
        );
      }
      blocked.open();
      await until(() => got.length === 4, 'what was kept');
      assert.deepEqual(got, kept);
    }));
}

test('drop-oldest fails the ask it sheds', () =>
  withSystem(async (system) => {
    const blocked = gate();
    const sink = spawn<undefined, number | Asking<string>>(
      system,
      () => blocked.opened.then(() => undefined),
      stuckSink(1, 'drop-oldest'),
    );
    dispatch(sink, 0);
    await until(() => stats(system).kinds.sink?.handled === 1, 'the first is being handled');
    const shed = query(sink, (replyTo: Ref<string>) => ({ replyTo }), 1000);
    dispatch(sink, 1);
    await rejectsWith(shed, 'overloaded');
    blocked.open();
  }));

test('a mailbox is bounded by default', () =>
  withSystem(async (system) => {
    const sink = spawn<undefined, number>(system, () => new Promise<undefined>(() => {}), { shutdownMs: 1 });
    for (let i = 0; i < 10_100; i++) dispatch(sink, i);
    assert.equal(stats(system).kinds.actor?.depth, 10_000);
    assert.equal(stats(system).kinds.actor?.dropped, 100);
  }));

test('a tell to an actor that has ended is a dead letter', () =>
  withSystem(async (system, { letters }) => {
    const sink = spawn<undefined, string>(system, () => undefined, { name: 'gone', kind: 'sink' });
    stop(sink);
    dispatch(sink, 'late');
    assert.deepEqual(letters, [{ to: 'test://gone', kind: 'sink', reason: 'stopped', message: 'late' }]);
    assert.equal(stats(system).deadLetters, 1);
  }));
