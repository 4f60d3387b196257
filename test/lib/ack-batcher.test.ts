import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AckBatcher } from '../../lib/batching.ts';

test('acknowledgements of one turn leave together, what comes meanwhile with the next batch, and all share its end', async () => {
  const sent: number[][] = [];
  const ends: (() => void)[] = [];
  const acks = new AckBatcher<number>((items) => {
    sent.push([...items]);
    return new Promise((resolve) => ends.push(resolve));
  });
  const [one, two] = [acks.add(1), acks.add(2)];
  assert.equal(one, two);
  await Promise.resolve();
  const [three, four] = [acks.add(3), acks.add(4)];
  assert.deepEqual(sent, [[1, 2]]);
  ends[0]?.();
  await one;
  await Promise.resolve();
  assert.deepEqual(sent, [
    [1, 2],
    [3, 4],
  ]);
  ends[1]?.();
  await three;
  assert.equal(three, four);
  await acks.idle();
});

test('a batch that fails fails those in it and no other, and no batch holds more than a thousand', async () => {
  const sizes: number[] = [];
  const acks = new AckBatcher<number>(async (items) => {
    sizes.push(items.length);
    if (items.includes(0)) throw new Error('away');
  });
  const all = await Promise.allSettled(Array.from({ length: 2500 }, (_, n) => acks.add(n)));
  assert.deepEqual(sizes, [1000, 1000, 500]);
  assert.equal(all.filter(({ status }) => status === 'rejected').length, 1000);
  await acks.idle();
  await acks.add(1);
});
