import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyedLimit } from '../../lib/concurrency.ts';

test('each key has so many places, and a place that is given back is free once', () => {
  const limit = new KeyedLimit(2);
  const first = limit.enter('ann');
  assert.ok(first !== undefined && limit.enter('ann') !== undefined);
  assert.equal(limit.enter('ann'), undefined);
  assert.ok(limit.enter('ben') !== undefined, 'another key has its own');
  first();
  first();
  assert.ok(limit.enter('ann') !== undefined);
  assert.equal(limit.enter('ann'), undefined, 'given back twice counts once');
});

test('all keys together have so many places', () => {
  const limit = new KeyedLimit(2, 3);
  const places = ['ann', 'ann', 'ben'].map((key) => limit.enter(key));
  assert.ok(places.every((place) => place !== undefined));
  assert.equal(limit.enter('cat'), undefined);
  places[0]?.();
  assert.ok(limit.enter('cat') !== undefined);
});
