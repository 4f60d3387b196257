import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ActorErrorCode,
  dispatch,
  entities,
  query,
  type Ref,
  type StopReason,
  type SystemRef,
  spawn,
  stats,
  stop,
  stopped,
  tree,
} from '../../supervision/index.ts';
import { TestSystem } from '../../supervision/testing/index.ts';
import { rejectsWith } from '../support/supervision/system.ts';

// Times beyond what a timer of Node (24.8 days) and a timestamp of 31 bits hold.

const DAY_MS = 86_400_000;

/** A system whose time passes in days. */
async function withCalendar(
  f: (system: SystemRef, calendar: { days(n: number): Promise<void> }) => Promise<void>,
): Promise<void> {
  const time = new TestSystem();
  await f(time.ref, { days: (n) => time.advance(n * DAY_MS) });
  await time.end();
}

test('an actor that may be idle for days stops after them, and a message begins them anew', () =>
  withCalendar(async (system, calendar) => {
    for (const days of [13, 30, 100]) {
      let reason: StopReason | undefined;
      const ref: Ref<string> = spawn(system, () => undefined, { shutdownAfter: days * DAY_MS });
      void stopped(ref).then((given) => {
        reason = given;
      });
      await calendar.days(days - 1);
      assert.equal(reason, undefined);
      dispatch(ref, 'once more');
      await calendar.days(days - 1);
      assert.equal(reason, undefined);
      await calendar.days(2);
      assert.deepEqual(reason, { kind: 'idle' }, `after ${days} days`);
    }
  }));

test('an actor that worked for longer than it may be idle is idle from then on', () =>
  withCalendar(async (system, calendar) => {
    let release: () => void = () => {};
    const ref: Ref<string> = spawn(
      system,
      () =>
        new Promise<undefined>((resolve) => {
          release = () => resolve(undefined);
        }),
      { shutdownAfter: 13 * DAY_MS },
    );
    dispatch(ref, 'work');
    await calendar.days(40);
    release();
    await calendar.days(12);
    assert.equal(stats(system).kinds.actor?.alive, 1);
    await calendar.days(2);
    assert.equal(stats(system).kinds.actor?.alive, 0);
  }));

test('a handler that never ends shows its age, and so does what waits behind it', () =>
  withCalendar(async (system, calendar) => {
    const stuck: Ref<string> = spawn(system, () => new Promise<undefined>(() => {}), { shutdownMs: 0 });
    const held: Ref<string> = spawn(system, () => undefined, {
      kind: 'held',
      shutdownMs: 0,
      initialStateFunc: () => new Promise<undefined>(() => {}),
    });
    dispatch(stuck, 'first');
    dispatch(held, 'waits');
    await calendar.days(13);
    const near = (age = 0, days: number): boolean => Math.abs(age - days * DAY_MS) < DAY_MS / 24;
    assert.ok(near(stats(system).kinds.actor?.oldestMs, 13));
    assert.ok(near(stats(system).kinds.held?.oldestMs, 13));
    assert.ok(near(tree(system).children[0]?.oldestMs, 13));
    await calendar.days(11);
    assert.ok(near(stats(system).kinds.actor?.oldestMs, 24));
    stop(system);
    await calendar.days(1);
  }));

test('timers of an actor keep any time', () =>
  withCalendar(async (system, calendar) => {
    const got: string[] = [];
    let cancel = (): void => {};
    spawn<undefined, string>(
      system,
      (_, msg) => {
        got.push(msg);
        return undefined;
      },
      {
        initialStateFunc: (ctx) => {
          ctx.after(60 * DAY_MS, 'after 60');
          ctx.after(80 * DAY_MS, 'cancelled');
          ctx.every(35 * DAY_MS, 'every 35');
          cancel = ctx.after(70 * DAY_MS, 'cancelled');
          ctx.after(50 * DAY_MS, 'after 50');
          return undefined;
        },
      },
    );
    await calendar.days(34);
    cancel();
    assert.deepEqual(got, []);
    await calendar.days(2);
    assert.deepEqual(got, ['every 35']);
    await calendar.days(23);
    assert.deepEqual(got, ['every 35', 'after 50']);
    await calendar.days(12);
    assert.deepEqual(got, ['every 35', 'after 50', 'after 60', 'every 35']);
    stop(system);
    await calendar.days(60);
    assert.equal(got.length, 4);
  }));

test('an ask may wait for months', () =>
  withCalendar(async (system, calendar) => {
    const ref: Ref<object> = spawn(system, () => undefined);
    let code: ActorErrorCode | undefined;
    const answer = rejectsWith(
      query(ref, (replyTo) => ({ replyTo }), 60 * DAY_MS),
      'timeout',
    ).then((error) => {
      code = error.code;
    });
    await calendar.days(59);
    assert.equal(code, undefined);
    await calendar.days(2);
    await answer;
  }));

test('an end may take months, and an entity may cool down for months', () =>
  withCalendar(async (system, calendar) => {
    const slow: Ref<string> = spawn(system, () => new Promise<undefined>(() => {}), { shutdownMs: 40 * DAY_MS });
    dispatch(slow, 'begin');
    await calendar.days(1);
    stop(slow);
    const all = entities<string, string>(system, {
      kind: 'thing',
      sleepAfterMs: 1000,
      coolDownMs: 40 * DAY_MS,
      intensity: { max: 0, withinMs: 1000 },
      activate: () => 'state',
      handle: () => {
        throw new Error('x');
      },
    });
    all.tell('a', 'crash');
    await calendar.days(39);
    assert.equal(stats(system).kinds.actor?.alive, 1);
    assert.match(
      (
        await rejectsWith(
          all.ask('a', () => 'x', 1000),
          'crashed',
        )
      ).message,
      /cools down/,
    );
    await calendar.days(3);
    assert.equal(stats(system).kinds.actor?.alive, 0);
    const woken = all.ask('a', () => 'x', 1000);
    assert.doesNotMatch((await rejectsWith(woken, 'crashed')).message, /cools down/);
  }));
