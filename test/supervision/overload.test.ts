/** An actor that is asked for more than it can do, and what becomes of those who ask once the load has fallen. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dispatch, query, type Ref, spawn, stats } from '../../supervision/index.ts';
import { TestSystem } from '../../supervision/testing/index.ts';
import { gate } from '../support/supervision/system.ts';

/** An answer takes 10 ms, so the actor gives 100 in a second. */
const WORK_MS = 10;
const DEADLINE_MS = 1000;

test('within a second after the load of an actor has fallen to half of what it can do, all who ask are answered', async () => {
  const time = new TestSystem({ seed: 1 });
  const slow = spawn<undefined, { readonly replyTo: Ref<string> }>(
    time.ref,
    async (_, { replyTo }) => {
      const worked = gate();
      time.clock.setTimeout(() => worked.open(), WORK_MS);
      await worked.opened;
      dispatch(replyTo, 'done');
      return undefined;
    },
    { kind: 'slow', mailbox: { capacity: 100_000 } },
  );
  /** Asks every `everyMs` for `ms`. Gives how many of these asks failed, in the end. */
  const load = async (everyMs: number, ms: number) => {
    const failures: Promise<number>[] = [];
    for (let at = 0; at < ms; at += everyMs) {
      failures.push(
        query(slow, (replyTo: Ref<string>) => ({ replyTo }), DEADLINE_MS).then(
          () => 0,
          () => 1,
        ),
      );
      await time.advance(everyMs);
    }
    return async () => (await Promise.all(failures)).reduce((sum, one) => sum + one, 0);
  };
  const during = await load(2, 4000);
  const rightAfter = await load(20, 1000);
  const later = await load(20, 2000);
  await time.advance(DEADLINE_MS);
  assert.ok((await during()) > 1000);
  assert.ok((await rightAfter()) <= 5, `${await rightAfter()} of 50 asks failed in the first second`);
  assert.equal(await later(), 0);
  assert.ok((stats(time.ref).kinds.slow?.expired ?? 0) > 1000);
  await time.end();
});
