import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchLoader } from '../../lib/batching.ts';

test('loads of one moment become few batches, each load with its own result; a failure is told to all of them and to no other', async () => {
  const batches: number[][] = [];
  let failing = false;
  const loader = new BatchLoader<number, number>(
    async (items) => {
      batches.push([...items]);
      await new Promise((resolve) => setImmediate(resolve));
      if (failing) throw new Error('away');
      return items.map((item) => item * 2).filter((answer) => answer < 1000);
    },
    { most: 10, atOnce: 2 },
  );
  const numbers = Array.from({ length: 95 }, (_, n) => n);
  assert.deepEqual(
    await Promise.all(numbers.map((n) => loader.load(n))),
    numbers.map((n) => n * 2),
  );
  assert.equal(batches.length, 10);
  await assert.rejects(loader.load(500), /no result/);
  failing = true;
  const results = await Promise.allSettled([1, 2].map((n) => loader.load(n)));
  assert.ok(results.every(({ status }) => status === 'rejected'));
  failing = false;
  assert.equal(await loader.load(3), 6);
});
