import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActorError, dispatch, type Ref, spawn, start, stop, stopped } from 'troupe/actors';
import { Probe, settled } from 'troupe/actors/testing';

type SafeMessage = { readonly type: 'try'; readonly by: string } | { readonly type: 'open'; readonly key: string };
type SafeNews = { readonly tries: number } | { readonly opened: true };

/** The actor under test: tells `owner` of every third try, and when it is opened. */
function spawnSafe(parent: Parameters<typeof spawn>[0], owner: Ref<SafeNews>): Ref<SafeMessage> {
  return spawn(
    parent,
    (tries: number, message: SafeMessage) => {
      if (message.type === 'open') {
        if (message.key !== 'right') throw new Error('the wrong key');
        dispatch(owner, { opened: true });
        return tries;
      }
      if (tries + 1 === 3) dispatch(owner, { tries: 3 });
      return (tries + 1) % 3;
    },
    { initialState: 0 },
  );
}

test('a safe tells of every third try', async (t) => {
  const system = start();
  t.after(() => stop(system));
  const owner = new Probe<SafeNews>(system);
  const safe = spawnSafe(system, owner.ref);

  dispatch(safe, { type: 'try', by: 'ann' });
  dispatch(safe, { type: 'try', by: 'bob' });
  await settled(system); // Both are handled, so what has not come will not come.
  assert.deepEqual(owner.take(), []);

  dispatch(safe, { type: 'try', by: 'ann' });
  assert.deepEqual(await owner.next(), { tries: 3 });
});

test('a wrong key ends the safe', async (t) => {
  const system = start();
  t.after(() => stop(system));
  const owner = new Probe<SafeNews>(system);
  const safe = spawnSafe(system, owner.ref);

  dispatch(safe, { type: 'open', key: 'wrong' });
  assert.equal((await stopped(safe)).kind, 'crashed');
  await assert.rejects(owner.next(10), (error: unknown) => error instanceof ActorError && error.code === 'timeout');
});
