import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { waitAtMost, withTimeout } from '../../lib/waiting.ts';

/** Work that is under way until told otherwise, on a clock that the test moves. */
function underWay(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let resolve: (value: string) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const work = new Promise<string>((fulfil, refuse) => {
    resolve = fulfil;
    reject = refuse;
  });
  return { work, resolve, reject, pass: (ms: number) => t.mock.timers.tick(ms) };
}

test('work that ends in time gives its result, and what comes of its time afterwards is nothing', async (t) => {
  const { work, resolve, pass } = underWay(t);
  let late = 0;
  const result = withTimeout(work, 100, () => late++);
  pass(99);
  resolve('done');
  assert.equal(await result, 'done');
  pass(1000);
  await turn();
  assert.equal(late, 0);
});

test('work that takes too long is answered for, and its failure later concerns nobody', async (t) => {
  const { work, reject, pass } = underWay(t);
  const result = withTimeout(work, 100, () => 'late');
  pass(100);
  assert.equal(await result, 'late');
  reject(new Error('unheard'));
  await turn();
});

test('what is thrown for work that takes too long, and what the work throws in time, reaches the caller', async (t) => {
  const { work, reject, pass } = underWay(t);
  const tooLate = withTimeout(work, 100, () => {
    throw new Error('too late');
  });
  const waited = waitAtMost(work, 200);
  pass(100);
  await assert.rejects(tooLate, /too late/);
  reject(new Error('of the work'));
  await assert.rejects(waited, /of the work/);
});

test('a wait of at most so long ends with its time', async (t) => {
  const { work, pass } = underWay(t);
  const waited = waitAtMost(work, 50);
  pass(50);
  assert.equal(await waited, undefined);
});
