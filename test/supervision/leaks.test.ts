import '../support/own-process.ts'; // It measures the heap of its process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dispatch, query, type Ref, spawn, start, stats, stop, stopped } from '../../supervision/index.ts';
import { heapInUse, manyLives, manyMessages } from '../support/supervision/churn.ts';
import { type Asking, withSystem } from '../support/supervision/system.ts';
import { until } from '../support/until.ts';

// The long form is `npm run soak -- runtime`.

const MB = 2 ** 20;

/** After a round: what the engine frees beside the work is not gone at once. */
const SETTLES_MS = 5000;

/** The least that six rounds added to the heap, bytes: what leaks grows in each, what the engine compiles and keeps only once. */
async function growth(round: () => Promise<void>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 6; i++) {
    const before = heapInUse();
    await round();
    const isBack = async () => {
      least = Math.min(least, heapInUse() - before);
      return least < MB;
    };
    if (await until(isBack, { timeoutMs: SETTLES_MS, everyMs: 100 }).catch(() => false)) return least;
  }
  return least;
}

test('a million messages leave the heap where it was', () =>
  withSystem(async (system) => {
    await manyMessages(system, 50_000);
    assert.ok((await growth(() => manyMessages(system, 1_000_000))) < MB, 'less than a byte a message');
  }));

test('a hundred thousand lives leave the heap where it was', () =>
  withSystem(async (system) => {
    await manyLives(system, 5000);
    assert.ok((await growth(() => manyLives(system, 100_000))) < MB, 'less than ten bytes a life');
    assert.equal(stats(system).kinds.actor?.alive, 0);
  }));

/** A system that answers an ask, and ends before it answers another one. Both asks have an hour. */
async function lifeOfASystem(): Promise<WeakRef<object>> {
  const system = start();
  const late: Ref<string>[] = [];
  const actor = spawn<undefined, Asking<string> & { at: 'once' | 'last' }>(system, (_, { at, replyTo }) => {
    if (at === 'once') dispatch(replyTo, 'here');
    else late.push(replyTo);
    return undefined;
  });
  const ask = (at: 'once' | 'last') => query(actor, (replyTo: Ref<string>) => ({ at, replyTo }), 3_600_000);
  const last = ask('last');
  assert.equal(await ask('once'), 'here');
  stop(system);
  await stopped(system);
  for (const replyTo of late) dispatch(replyTo, 'after all');
  assert.equal(await last, 'after all');
  return new WeakRef(system);
}

test('an ended system leaves no timer behind that holds it, however long its asks might have taken', async () => {
  const systems = await Promise.all([lifeOfASystem(), lifeOfASystem(), lifeOfASystem()]);
  const isGone = () => heapInUse() > 0 && systems.every((system) => system.deref() === undefined);
  await until(isGone, { timeoutMs: SETTLES_MS, everyMs: 100, what: 'the systems are collected' });
});
