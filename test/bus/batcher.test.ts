import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BusError } from '../../proto/ports/bus.ts';
import { Batcher } from '../../transports/bus/batcher.ts';

const limits = { items: 3, bytes: 10_000, waitingBytes: 1 << 20 };

test('what is asked for at once makes batches of bounded size, in order', async () => {
  const batches: number[][] = [];
  const batcher = new Batcher<number, number>(async (items) => {
    batches.push([...items]);
    return items.map((item) => item * 2);
  }, limits);
  const results = await Promise.all([1, 2, 3, 4, 5].map((item) => batcher.add(item)));
  assert.deepEqual(results, [2, 4, 6, 8, 10]);
  assert.deepEqual(batches, [
    [1, 2, 3],
    [4, 5],
  ]);
  batches.length = 0;
  await Promise.all([batcher.add(6, 9000), batcher.add(7, 9000), batcher.add(8, 20_000)]);
  assert.deepEqual(batches, [[6], [7], [8]]);
});

test('a failed batch fails its own items only', async () => {
  const batcher = new Batcher<number, number>(async (items) => {
    if (items.includes(1)) throw new Error('no');
    return items;
  }, limits);
  const results = await Promise.allSettled([1, 2, 3, 4].map((item) => batcher.add(item)));
  assert.deepEqual(
    results.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected', 'fulfilled'],
  );
  await batcher.idle();
});

test('too much waiting is refused', async () => {
  const batcher = new Batcher<number, number>(async (items) => items, { ...limits, waitingBytes: 1000 });
  const first = batcher.add(1, 800);
  await assert.rejects(batcher.add(2, 800), (error) => error instanceof BusError && error.code === 'unavailable');
  assert.equal(await first, 1);
  assert.equal(await batcher.add(3, 800), 3);
});

test('a batch with too few results fails the rest', async () => {
  const batcher = new Batcher<number, number>(async (items) => items.slice(1), limits);
  const results = await Promise.allSettled([batcher.add(1), batcher.add(2)]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  );
});
