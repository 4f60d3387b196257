import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { KeyedQueue } from '../../lib/concurrency.ts';

test('work under one key runs in order, under several keys at once, and leaves nothing behind', async () => {
  const queue = new KeyedQueue();
  const order: string[] = [];
  const work = (name: string) => async () => {
    order.push(`${name} begins`);
    await turn();
    await turn();
    order.push(`${name} ends`);
    if (name === 'a1') throw new Error(name);
    return name;
  };
  const results = await Promise.allSettled([
    queue.run('a', work('a1')),
    queue.run('a', work('a2')),
    queue.run('b', work('b1')),
  ]);
  assert.deepEqual(
    results.map((result) => (result.status === 'fulfilled' ? result.value : String(result.reason))),
    ['Error: a1', 'a2', 'b1'],
  );
  assert.ok(order.indexOf('a2 begins') > order.indexOf('a1 ends'));
  assert.ok(order.indexOf('b1 begins') < order.indexOf('a1 ends'));
  assert.equal(queue.size, 0);
});
