import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoffMs, FULL_JITTER, HALF_JITTER, type Jitter, NO_JITTER, WIDE_JITTER } from '../../lib/waiting.ts';

const BOUNDS = { minMs: 50, maxMs: 1000 };

test('a pause doubles up to its bound, however often it is asked for', () => {
  const pauses = [0, 1, 2, 3, 4, 5, 6, 1e6, Number.POSITIVE_INFINITY].map((doublings) => backoffMs(doublings, BOUNDS));
  assert.deepEqual(pauses, [50, 100, 200, 400, 800, 1000, 1000, 1000, 1000]);
  assert.equal(backoffMs(1e6, { minMs: 0, maxMs: 1000 }), 0);
});

test('a random share of a pause lies between the two that its jitter names', () => {
  const range = (jitter: Jitter) => [0, 0.5, 1].map((drawn) => backoffMs(1, BOUNDS, jitter, () => drawn));
  assert.deepEqual(range(NO_JITTER), [100, 100, 100]);
  assert.deepEqual(range(HALF_JITTER), [50, 75, 100]);
  assert.deepEqual(range(WIDE_JITTER), [50, 100, 150]);
  assert.deepEqual(range(FULL_JITTER), [0, 50, 100]);
  const drawn = Array.from({ length: 200 }, () => backoffMs(1, BOUNDS, HALF_JITTER));
  assert.ok(drawn.every((pause) => pause >= 50 && pause <= 100));
  assert.ok(new Set(drawn).size > 100);
});
