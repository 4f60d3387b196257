import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stats } from '../../supervision/index.ts';
import { heapInUse, manyLives, manyMessages } from '../support/supervision/churn.ts';
import { withSystem } from '../support/supervision/system.ts';
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
