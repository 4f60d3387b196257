import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActorError, dispatch, type Ref, spawn, spawnStateless, stopped } from 'troupe/actors';
import { Probe, TestSystem } from 'troupe/actors/testing';

type SafeMessage =
  | { readonly type: 'try'; readonly by: string }
  | { readonly type: 'open'; readonly key: string }
  | { readonly type: 'unlock' };
type SafeNews = { readonly lockedBy: string } | { readonly unlocked: true } | { readonly opened: true };

/** The actor under test: locks itself for a minute at every third try, and tells `owner` of it. */
function spawnSafe(parent: Parameters<typeof spawn>[0], owner: Ref<SafeNews>): Ref<SafeMessage> {
  return spawn(
    parent,
    (tries: number, message: SafeMessage, ctx) => {
      if (message.type === 'unlock') {
        dispatch(owner, { unlocked: true });
        return 0;
      }
      if (tries === 3) return tries;
      if (message.type === 'open') {
        if (message.key !== 'right') throw new Error('the wrong key');
        dispatch(owner, { opened: true });
        return tries;
      }
      if (tries + 1 === 3) {
        dispatch(owner, { lockedBy: message.by });
        ctx.after(60_000, { type: 'unlock' });
      }
      return tries + 1;
    },
    { initialState: 0 },
  );
}

test('a safe locks at the third try, for a minute', async (t) => {
  const time = new TestSystem();
  t.after(() => time.end());
  const owner = new Probe<SafeNews>(time.ref);
  const safe = spawnSafe(time.ref, owner.ref);

  dispatch(safe, { type: 'try', by: 'ann' });
  dispatch(safe, { type: 'try', by: 'bob' });
  await time.settle(); // Both are handled, so what has not come will not come.
  assert.deepEqual(owner.take(), []);

  dispatch(safe, { type: 'try', by: 'ann' });
  assert.deepEqual(await owner.next(), { lockedBy: 'ann' });

  await time.advance(59_999);
  assert.deepEqual(owner.take(), []);
  await time.advance(1);
  assert.deepEqual(owner.take(), [{ unlocked: true }]);
});

test('a wrong key ends the safe', async (t) => {
  const time = new TestSystem();
  t.after(() => time.end());
  const owner = new Probe<SafeNews>(time.ref);
  const safe = spawnSafe(time.ref, owner.ref);

  dispatch(safe, { type: 'open', key: 'wrong' });
  assert.equal((await stopped(safe)).kind, 'crashed');
  const nothing = (error: unknown): boolean => error instanceof ActorError && error.code === 'timeout';
  await assert.rejects(time.until(owner.next()), nothing);
});

test('whoever comes first, a safe locks once', async () => {
  const by = new Set<string>();
  for (let seed = 0; seed < 20; seed++) {
    const time = new TestSystem({ seed });
    const owner = new Probe<SafeNews>(time.ref);
    const safe = spawnSafe(time.ref, owner.ref);
    for (const name of ['ann', 'bob']) {
      const burglar = spawnStateless(time.ref, () => dispatch(safe, { type: 'try', by: name }));
      for (let tries = 0; tries < 2; tries++) dispatch(burglar, 'go');
    }
    await time.settle();
    const news = owner.take();
    assert.equal(news.length, 1, `seed ${seed}\n${time.trace.join('\n')}`);
    for (const each of news) if ('lockedBy' in each) by.add(each.lockedBy);
    await time.end();
  }
  assert.deepEqual([...by].sort(), ['ann', 'bob']);
});
