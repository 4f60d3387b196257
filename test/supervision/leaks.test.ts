import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stats } from '../../supervision/index.ts';
import { heapInUse, manyLives, manyMessages } from './churn.ts';
import { withSystem } from './helpers.ts';

// The long form is `npm run soak -- runtime`.

const MB = 2 ** 20;

test('a million messages leave the heap where it was', () =>
  withSystem(async (system) => {
    await manyMessages(system, 50_000);
    const before = heapInUse();
    await manyMessages(system, 1_000_000);
    assert.ok(heapInUse() - before < MB, 'less than a byte a message');
  }));

test('a hundred thousand lives leave the heap where it was', () =>
  withSystem(async (system) => {
    await manyLives(system, 5000);
    const before = heapInUse();
    await manyLives(system, 100_000);
    assert.ok(heapInUse() - before < MB, 'less than ten bytes a life');
    assert.equal(stats(system).kinds.actor?.alive, 0);
  }));
