import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MailboxPool } from '../../supervision/cell/mailbox.ts';
import { dispatch, query, type Ref, spawn } from '../../supervision/index.ts';
import { type Asking, openAsks, rejectsWith, withSystem } from '../support/supervision/system.ts';

test('a mailbox is a queue, whatever is put in and taken out, across chunks and reuse', () => {
  const pool = new MailboxPool();
  const step = fc.record({ push: fc.nat(400), take: fc.nat(400) });
  // Some messages in a row have the same stamp, also the last of one use and the first of the next.
  const stampOf = (n: number): number => n >> 3;
  let next = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const mailbox = pool.take();
      const model: number[] = [];
      const takeOne = (): void => {
        const expected = model.shift();
        assert.equal(mailbox.take(), expected);
        assert.equal(mailbox.meta, stampOf(expected ?? 0));
      };
      for (const { push, take } of steps) {
        for (let i = 0; i < push; i++) {
          mailbox.push(next, stampOf(next));
          model.push(next++);
        }
        for (let i = 0; i < take && model.length > 0; i++) takeOne();
        assert.equal(mailbox.length, model.length);
        assert.deepEqual(mailbox.toArray(), model);
        if (model.length > 0) assert.equal(mailbox.peekMeta(), stampOf(model[0] ?? 0));
        assert.equal(mailbox.has(model.at(-1) ?? 0), model.length > 0);
        assert.equal(mailbox.has(next), false);
      }
      while (model.length > 0) takeOne();
      pool.give(mailbox);
    }),
    { numRuns: 50 },
  );
});

test('a flooded mailbox keeps the order through chunks of both sizes, and finds what waits', () => {
  const pool = new MailboxPool();
  const mailbox = pool.take();
  const COUNT = 50_000;
  let taken = 0;
  for (let i = 0; i < COUNT; i++) {
    mailbox.push(i, i);
    if (i % 5 === 0) assert.equal(mailbox.take(), taken++);
  }
  assert.equal(mailbox.length, COUNT - taken);
  assert.equal(mailbox.has(taken - 1), false);
  assert.ok(mailbox.has(taken) && mailbox.has(COUNT - 1));
  assert.deepEqual(
    mailbox.toArray(),
    Array.from({ length: COUNT - taken }, (_, i) => taken + i),
  );
  while (mailbox.length > 0) assert.equal(mailbox.take(), taken++);
  assert.equal(taken, COUNT);
  pool.give(mailbox);
});

test('asks that are over leave nothing behind, whichever way they ended', () =>
  withSystem(async (system) => {
    const before = openAsks(system);
    const ref = spawn<undefined, Asking<string> & { do: 'reply' | 'crash' | 'nothing' }>(
      system,
      (_, { replyTo, do: what }) => {
        if (what === 'crash') throw new Error('crash');
        if (what === 'reply') dispatch(replyTo, 'here');
        return undefined;
      },
      { onCrash: (_msg, _error, ctx) => ctx.resume },
    );
    const ask = (what: 'reply' | 'crash' | 'nothing', ms: number) =>
      query(ref, (replyTo: Ref<string>) => ({ replyTo, do: what }), ms);
    const asks = [ask('reply', 1000), ask('reply', 100_000), ask('nothing', 2)];
    const crashed = ask('crash', 5000);
    assert.equal(openAsks(system) - before, 4);
    await rejectsWith(crashed, 'crashed');
    await Promise.allSettled(asks);
    assert.equal(openAsks(system), before);
  }));

test('the address of an asker has a name for people', () =>
  withSystem(async (system) => {
    const ref = spawn<undefined, Asking<string>>(
      system,
      (_, { replyTo }) => {
        dispatch(replyTo, `${replyTo.name} ${replyTo.path}`);
        return undefined;
      },
      { name: 'a' },
    );
    assert.equal(await query(ref, (replyTo: Ref<string>) => ({ replyTo }), 1000), '$ask test://a#ask');
  }));
