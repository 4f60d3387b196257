/** What takes too long is given up: activations, decisions about crashes, and the loop of whoever lets many go. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActorError, dispatch, entities, query, type Ref, spawn } from '../../supervision/index.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { rejectsWith, until, withSystem } from '../support/supervision/system.ts';

failOnLeaks();

const ASK_MS = 10_000;
const never = new Promise<never>(() => {});

/** What an ask fails with whose actor was given up for being late. */
function late(what: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof ActorError && error.code === 'crashed', String(error));
    assert.ok(error.cause instanceof ActorError && error.cause.code === 'timeout', String(error.cause));
    assert.match(error.cause.message, what);
    return true;
  };
}

test('an activation that takes too long fails all who wait, and the next message activates the entity anew', () =>
  withSystem(async (system) => {
    let activations = 0;
    const kind = entities<Ref<number>, number>(system, {
      kind: 'shop/slow',
      sleepAfterMs: 60_000,
      activateMs: 50,
      activate: () => (++activations === 1 ? never : activations),
      handle: (state, replyTo) => {
        dispatch(replyTo, state);
        return state;
      },
    });
    const ask = () => kind.ask<number>('one', (replyTo) => replyTo, ASK_MS);
    const waiting = [ask(), ask()];
    for (const asked of waiting) await assert.rejects(asked, late(/shop\/slow one was not activated within 50 ms/));
    assert.equal(await ask(), 2);
  }));

test('a decision about a crash that takes too long stops the actor, and who waits for it hears why', () =>
  withSystem(async (system) => {
    const actor = spawn<null, Ref<number>>(
      system,
      () => {
        throw new Error('crash');
      },
      { onCrash: () => never, decisionMs: 50 },
    );
    const ask = () => query<Ref<number>, number>(actor, (replyTo) => replyTo, ASK_MS);
    const [first, second] = [ask(), ask()];
    await rejectsWith(first, 'crashed');
    await assert.rejects(second, late(/did not decide about a crash within 50 ms/));
    await rejectsWith(ask(), 'stopped');
  }));

test('an entity whose policy never decides can be activated again', () =>
  withSystem(async (system) => {
    let decisions = 0;
    const kind = entities<{ readonly replyTo: Ref<number>; readonly fails: boolean }, number>(system, {
      kind: 'shop/undecided',
      sleepAfterMs: 60_000,
      decisionMs: 50,
      activate: () => 7,
      handle: (state, { replyTo, fails }) => {
        if (fails) throw new Error('crash');
        dispatch(replyTo, state);
        return state;
      },
      onCrash: () => {
        decisions++;
        return never;
      },
    });
    const ask = (fails: boolean) => kind.ask<number>('one', (replyTo) => ({ replyTo, fails }), ASK_MS);
    const [first, second] = [ask(true), ask(false)];
    await rejectsWith(first, 'crashed');
    await assert.rejects(second, late(/did not decide/));
    assert.deepEqual([await ask(false), decisions], [7, 1]);
  }));

test('while many entities are let go, timers fire: a lease is renewed', () =>
  withSystem(async (system) => {
    const COUNT = 20_000;
    let [handled, asleep] = [0, 0];
    const kind = entities<null, number>(system, {
      kind: 'shop/many',
      sleepAfterMs: 60_000,
      activate: () => 1,
      handle: (state) => {
        handled++;
        return state;
      },
      onSleep: () => {
        asleep++;
        for (const end = performance.now() + 0.1; performance.now() < end; );
      },
    });
    for (let n = 0; n < COUNT; n++) kind.tell(`e${n}`, null);
    await until(() => handled === COUNT, 'all are awake');
    let [beat, longest] = [performance.now(), 0];
    const timer = setInterval(() => {
      const now = performance.now();
      longest = Math.max(longest, now - beat);
      beat = now;
    }, 10);
    await kind.release(() => true);
    longest = Math.max(longest, performance.now() - beat);
    clearInterval(timer);
    assert.deepEqual([asleep, kind.awake()], [COUNT, 0]);
    // All of them take two seconds and more.
    assert.ok(longest < 500, `nothing else ran for ${Math.round(longest)} ms`);
  }));
