import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import type { Ref } from '../../supervision/index.ts';
import { pause } from '../support/pause.ts';
import { accountsOf, CALM_MS, openAccountNodes } from '../support/placement/account-nodes.ts';
import type { AccountMessage } from '../support/placement/account-service.ts';
import { gate, rejectsWith } from '../support/supervision/system.ts';

test('an ask of another node that is over when its turn comes is not handled by the owner', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const [a, b] = [await place.add('a'), await place.add('b')];
  await place.settled(a, b);
  const [id] = accountsOf(a);
  assert.ok(id !== undefined);
  const [begun, held] = [gate(), gate()];
  a.waits = () => {
    begun.open();
    return held.opened;
  };
  const deposit = (op: string, timeoutMs: number): Promise<number> =>
    b.accounts.ask(id, (replyTo: Ref<number>) => ({ type: 'deposit', op, amount: 1, replyTo }), timeoutMs);
  const busy = b.accounts.ask(id, (replyTo: Ref<number>): AccountMessage => ({ type: 'wait', replyTo }), 15_000);
  await begun.opened;
  await rejectsWith(deposit('late', 25), 'timeout');
  // The owner counts from the arrival, so its deadline passes a little after the asker's.
  await pause(20, 'watch');
  held.open();
  await busy;
  assert.equal(await deposit('in time', 15_000), 1);
  const effects = await place.db.many(z.object({ op: z.string() }), 'select op from deposits order by n');
  assert.deepEqual(
    effects.map(({ op }) => op),
    ['in time'],
  );
});
