import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Context,
  child,
  type Decision,
  dispatch,
  type MailboxPolicy,
  type Ref,
  spawn,
  startSupervisor,
  stats,
  stop,
} from '../../supervision/index.ts';
import { gate, timersDue, until, withSystem } from '../support/supervision/system.ts';

const nothing = (): undefined => undefined;

for (const policy of ['reject', 'drop-oldest', 'drop-newest'] as const satisfies MailboxPolicy[]) {
  test(`with policy ${policy} a full mailbox loses no end and no timer, and they are handled first, in order`, () =>
    withSystem(async (system, { letters }) => {
      const held = gate();
      const seen: string[] = [];
      const targets = ['a', 'b', 'c'].map((name) => spawn<undefined, string>(system, nothing, { name }));
      const busy = spawn<void, string>(
        system,
        async (_, msg, ctx) => {
          seen.push(msg);
          if (msg !== 'hold') return;
          ctx.after(1, 'timer');
          for (const target of targets) stop(target);
          await held.opened;
        },
        {
          kind: 'busy',
          mailbox: { capacity: 2, policy },
          initialStateFunc: (ctx) => {
            for (const target of targets) ctx.watch(target, () => `${target.name} ended`);
          },
        },
      );
      dispatch(busy, 'hold');
      await until(() => seen.length === 1, 'a handler that goes on');
      const numbers = () => stats(system).kinds.busy;
      for (const msg of ['1', '2']) dispatch(busy, msg);
      await until(() => numbers()?.depth === 6, 'the timer');
      for (const msg of ['3', '4']) dispatch(busy, msg);
      assert.equal(numbers()?.depth, 6);
      held.open();
      await until(() => numbers()?.depth === 0, 'all that waited');
      const kept = policy === 'drop-oldest' ? ['3', '4'] : ['1', '2'];
      assert.deepEqual(seen, ['hold', 'a ended', 'b ended', 'c ended', 'timer', ...kept]);
      assert.equal(numbers()?.dropped, 2);
      assert.deepEqual(
        letters.map(({ message }) => message),
        policy === 'reject' ? ['3', '4'] : [],
      );
    }));
}

test('a supervisor restarts all of its children that end at once, more of them than a mailbox holds', () =>
  withSystem(async (system) => {
    const count = 12_000;
    const supervisor = await startSupervisor(system, {
      name: 'crowd',
      strategy: 'one-for-one',
      intensity: { max: 2 * count, withinMs: 600_000 },
      children: Array.from({ length: count }, (_, i) => ({
        id: `c${i}`,
        restart: 'permanent' as const,
        shutdownMs: 1000,
        start: (parent) => spawn(parent, nothing, { kind: 'member' }),
      })),
    });
    for (let i = 0; i < count; i++) {
      const ref = child(supervisor, `c${i}`);
      assert.ok(ref !== undefined);
      stop(ref);
    }
    assert.equal(stats(system).kinds.member?.alive, 0);
    await until(() => stats(system).kinds.member?.restarts === count, 'all children', 20_000);
    assert.equal(stats(system).kinds.member?.alive, count);
  }));

test('a beat waits its turn among the messages, and once: it does not keep them from being handled', () =>
  withSystem(async (system) => {
    const held = gate();
    const seen: string[] = [];
    let context: Context<string> | undefined;
    const busy: Ref<string> = spawn<void, string>(system, async (_, msg, ctx) => {
      context = ctx;
      seen.push(msg);
      if (msg === 'hold') await held.opened;
      if (msg === 'beat') cancel();
    });
    let cancel = (): void => {};
    dispatch(busy, 'hold');
    await until(() => context !== undefined, 'a handler that goes on');
    dispatch(busy, 'before');
    cancel = context?.every(1, 'beat') ?? cancel;
    await timersDue(system, 10);
    dispatch(busy, 'after');
    held.open();
    await until(() => seen.includes('after'), 'the last message');
    assert.deepEqual(seen, ['hold', 'before', 'beat', 'after']);
  }));

test('signals that wait are part of the mailbox that is shown, and dead letters when their actor stops', () =>
  withSystem(async (system, { letters }) => {
    const held = gate();
    let crashed = false;
    let shown: readonly string[] = [];
    const target = spawn<undefined, string>(system, nothing);
    const dying = spawn<undefined, string>(
      system,
      () => {
        throw new Error('x');
      },
      {
        initialStateFunc: (ctx) => {
          ctx.watch(target, () => 'ended');
          return undefined;
        },
        onCrash: async (_msg, _error, ctx): Promise<Decision> => {
          crashed = true;
          await held.opened;
          shown = ctx.mailbox;
          return ctx.stop;
        },
      },
    );
    for (const msg of ['1', '2', '3']) dispatch(dying, msg);
    await until(() => crashed, 'a crash');
    stop(target);
    held.open();
    await until(() => letters.length > 0, 'its decision');
    assert.deepEqual(shown, ['ended', '2', '3']);
    assert.deepEqual(
      letters.map(({ message }) => message),
      ['ended', '2', '3'],
    );
  }));
