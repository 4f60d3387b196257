import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dispatch, type Ref, spawn, stats, stop } from '../../supervision/index.ts';
import { timersDue, until, withSystem } from '../support/supervision/system.ts';

test('an actor that never runs out of messages cannot hold up timers, sockets or other actors', () =>
  withSystem(async (system) => {
    // It sends itself another message each time: if it were drained to the end, nothing else would ever run.
    const flooded: Ref<number> = spawn<number, number>(
      system,
      (_, n, ctx) => {
        dispatch(ctx.self, n + 1);
        return n;
      },
      { initialState: 0 },
    );
    dispatch(flooded, 0);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    let heard = 0;
    const other = spawn<undefined, string>(system, () => {
      heard++;
      return undefined;
    });
    while (ticks < 5) {
      dispatch(other, 'hello');
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => heard > 0, 'the other actor');
    clearInterval(timer);
    assert.ok((stats(system).kinds.actor?.handled ?? 0) > 5);
    stop(flooded);
  }));

test('slow handlers give way after each message', () =>
  withSystem(async (system) => {
    const order: string[] = [];
    const busyWait = (ms: number): void => {
      const end = performance.now() + ms;
      while (performance.now() < end);
    };
    const slow = spawn<undefined, number>(system, (_, n) => {
      busyWait(5);
      order.push(`message ${n}`);
      return undefined;
    });
    for (let i = 0; i < 40; i++) dispatch(slow, i);
    setImmediate(() => order.push('immediate'));
    await until(() => order.length === 41, 'all');
    assert.ok(order.indexOf('immediate') < 40, 'the loop turned before the queue was empty');
  }));

test('many actors with one message each give way to the loop too', () =>
  withSystem(async (system) => {
    let passes = 0;
    let going = true;
    const ring: Ref<number>[] = [];
    for (let i = 0; i < 100; i++) {
      ring.push(
        spawn<undefined, number>(system, (_, n) => {
          passes++;
          const next = ring[(i + 1) % ring.length];
          if (going && next !== undefined) dispatch(next, n);
          return undefined;
        }),
      );
    }
    const [first] = ring;
    assert.ok(first !== undefined);
    dispatch(first, 0);
    // The ring never ends by itself: this timer fires only because it gives way.
    await timersDue(system, 3);
    going = false;
    assert.ok(passes > 100);
  }));
