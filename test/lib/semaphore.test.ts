import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Semaphore, type SemaphoreOptions } from '../../lib/concurrency.ts';
import { until } from '../support/until.ts';

test('a semaphore runs so many at a time, the urgent first, in their order, and forgets who gives up', async () => {
  const semaphore = new Semaphore(2);
  const order: number[] = [];
  const leave: (() => void)[] = [];
  const enter = (n: number, options: SemaphoreOptions = {}): Promise<void> =>
    semaphore.run(async () => {
      order.push(n);
      await new Promise<void>((resolve) => leave.push(resolve));
    }, options);
  const giveUp = new AbortController();
  const all = [enter(1), enter(2)];
  const third = enter(3, { signal: giveUp.signal });
  all.push(enter(4), enter(5), enter(6, { isUrgent: true }));
  await until(() => semaphore.waiting === 4);
  assert.deepEqual(order, [1, 2]);
  giveUp.abort(new Error('not any more'));
  await assert.rejects(third, /not any more/);
  leave[0]?.();
  await until(() => order.length === 3);
  leave[1]?.();
  await until(() => order.length === 4);
  leave[2]?.();
  await until(() => order.length === 5);
  assert.deepEqual(order, [1, 2, 6, 4, 5]);
  for (const go of leave) go();
  await Promise.all(all);
  // A failure gives its place back, too.
  await assert.rejects(
    semaphore.run(() => Promise.reject(new Error('failed'))),
    /failed/,
  );
  assert.equal(await semaphore.run(async () => 'in'), 'in');
  await assert.rejects(
    semaphore.run(async () => 'in', { signal: AbortSignal.abort(new Error('before')) }),
    /before/,
  );
});
