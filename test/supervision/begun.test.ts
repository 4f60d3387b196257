import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActorError, query, type Ref, spawn, stop } from '../../supervision/index.ts';
import { withSystem } from '../support/supervision/system.ts';

test('an ask that ends with its actor says whether a handler had begun with it', async () => {
  await withSystem(async (system) => {
    let entered = () => {};
    const handling = new Promise<void>((resolve) => {
      entered = resolve;
    });
    const actor = spawn<null, Ref<number>>(
      system,
      () => {
        entered();
        return new Promise<null>(() => {});
      },
      { shutdownMs: 20 },
    );
    const begun = (asked: Promise<number>) =>
      asked.then(
        () => assert.fail('nobody replies'),
        (error: unknown) => error instanceof ActorError && error.code === 'stopped' && error.begun,
      );
    const asks = [1, 2].map(() => begun(query<Ref<number>, number>(actor, (replyTo) => replyTo, 10_000)));
    await handling;
    stop(actor);
    assert.deepEqual(await Promise.all(asks), [true, false]);
  });
});
