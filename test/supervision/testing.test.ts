import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dispatch, type Ref, spawn, spawnStateless, start, stop } from '../../supervision/index.ts';
import { Probe, settled } from '../../supervision/testing/index.ts';

const timeout = { name: 'ActorError', code: 'timeout' };

test('a probe gives messages in order, those that came before and those that come later', async (t) => {
  const system = start();
  t.after(() => stop(system));
  const probe = new Probe<number>(system);
  for (const n of [1, 2, 3, 4]) dispatch(probe.ref, n);
  assert.equal(await probe.next(), 1);
  assert.equal(await probe.nextWhere((n) => n > 2), 3);
  assert.equal(await probe.next(), 2);
  assert.deepEqual(probe.take(), [4]);
  const later = [probe.nextWhere((n) => n === 7), probe.next(), probe.next()];
  for (const n of [5, 7, 6]) dispatch(probe.ref, n);
  assert.deepEqual(await Promise.all(later), [7, 5, 6]);
  await assert.rejects(probe.next(5), timeout);
  dispatch(probe.ref, 8);
  assert.equal(await probe.next(), 8);
});

test('a system is settled once no message waits and no handler runs', async (t) => {
  const system = start();
  t.after(() => stop(system));
  const probe = new Probe<string>(system);
  const steps: string[] = [];
  const last = spawn(system, async (_: null, message: string) => {
    await new Promise(setImmediate);
    steps.push(message);
    return null;
  });
  const first = spawnStateless(system, async (to: Ref<string>) => {
    await new Promise(setImmediate);
    dispatch(to, 'a');
    dispatch(to, 'b');
  });
  dispatch(first, last);
  await settled(system);
  assert.deepEqual(steps, ['a', 'b']);
  assert.deepEqual(probe.take(), []);

  let free = () => {};
  const stuck = spawnStateless(system, () => new Promise<void>((resolve) => (free = resolve)), { name: 'busy' });
  dispatch(stuck, null);
  await assert.rejects(settled(system, 20), { ...timeout, message: /busy is busy$/ });
  free();
  await settled(system);
});
