import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  dispatch,
  query,
  type Ref,
  SpawnError,
  type SystemRef,
  spawn,
  spawnStateless,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { type Asking, gate, rejectsWith, until, withSystem } from '../support/supervision/system.ts';

const asking = <Reply>(replyTo: Ref<Reply>): Asking<Reply> => ({ replyTo });

test('an ask that nobody answers ends with timeout, and a reply after that is a late dead letter', () =>
  withSystem(async (system, { letters }) => {
    let kept: Ref<string> | undefined;
    const silent = spawn<undefined, Asking<string>>(
      system,
      (_, { replyTo }) => {
        kept = replyTo;
        return undefined;
      },
      { name: 'silent' },
    );
    await rejectsWith(query(silent, asking<string>, 5), 'timeout');
    assert.ok(kept !== undefined);
    dispatch(kept, 'too late');
    assert.deepEqual(letters, [{ to: 'test://silent#ask', kind: 'ask', reason: 'late', message: 'too late' }]);
  }));

test('a second reply is a late dead letter, and so is the reply of a handler that outlives the deadline', () =>
  withSystem(async (system, { letters }) => {
    const slow = spawn<undefined, Asking<string> & { readonly held: Promise<void> }>(system, async (_, msg) => {
      await msg.held;
      dispatch(msg.replyTo, 'first');
      dispatch(msg.replyTo, 'second');
      return undefined;
    });
    const { opened: held, open } = gate();
    assert.equal(await query(slow, (replyTo: Ref<string>) => ({ replyTo, held: Promise.resolve() }), 1000), 'first');
    await rejectsWith(
      query(slow, (replyTo: Ref<string>) => ({ replyTo, held }), 5),
      'timeout',
    );
    open();
    await until(() => letters.length === 3, 'the replies that nobody hears');
    assert.deepEqual(
      letters.map(({ reason, message }) => [reason, message]),
      [
        ['late', 'second'],
        ['late', 'first'],
        ['late', 'second'],
      ],
    );
  }));

for (const [what, make] of [
  [
    'a stateful actor',
    (system: SystemRef, handle: (msg: Asking<string> | 'tell') => Promise<void>) =>
      spawn<void, Asking<string> | 'tell'>(system, (_, msg) => handle(msg), { kind: 'slow' }),
  ],
  [
    'a stateless actor',
    (system: SystemRef, handle: (msg: Asking<string> | 'tell') => Promise<void>) =>
      spawnStateless(system, handle, { kind: 'slow' }),
  ],
] as const) {
  test(`${what} does not handle an ask that is over when its turn comes, and counts it`, () =>
    withSystem(async (system) => {
      const held = gate();
      const begun: string[] = [];
      const slow = make(system, async (msg) => {
        begun.push(msg === 'tell' ? msg : 'ask');
        await held.opened;
        if (msg !== 'tell') dispatch(msg.replyTo, 'done');
      });
      dispatch(slow, 'tell');
      const expired = Array.from({ length: 100 }, () => rejectsWith(query(slow, asking<string>, 5), 'timeout'));
      const answered: Promise<string>[] = [];
      let earlier: Ref<string> | undefined;
      const answer = query<Asking<string>, string>(
        slow,
        (replyTo) => {
          earlier = replyTo;
          return { replyTo };
        },
        600_000,
      );
      answered.push(answer, query(slow, asking<string>, 600_000));
      dispatch(slow, 'tell');
      await Promise.all(expired);
      assert.ok(earlier !== undefined);
      dispatch(earlier, 'by another');
      assert.deepEqual(begun, ['tell']);
      held.open();
      assert.deepEqual(await Promise.all(answered), ['by another', 'done']);
      await until(() => begun.length === 3, 'what waited behind them');
      assert.deepEqual(begun, ['tell', 'ask', 'tell']);
      const { handled, expired: skipped, depth } = stats(system).kinds.slow ?? {};
      assert.deepEqual({ handled, skipped, depth }, { handled: 3, skipped: 101, depth: 0 });
    }));
}

test('a reply that is a promise is settled under the deadline, and rejects with nothing but an ActorError', () =>
  withSystem(async (system, { letters }) => {
    const late = gate<string>();
    // Each promise is made when it becomes a reply: a rejected one must not wait without a handler.
    const replies: (() => Promise<unknown>)[] = [
      () => Promise.resolve('kept'),
      () => Promise.reject(new TypeError('broken')),
      () => new Promise(() => {}),
      () => late.opened,
    ];
    const forgetful = spawn<undefined, Asking<unknown>>(system, (_, { replyTo }) => {
      dispatch(replyTo, replies.shift()?.());
      return undefined;
    });
    assert.equal(await query(forgetful, asking<unknown>, 1000), 'kept');
    const error = await rejectsWith(query(forgetful, asking<unknown>, 1000), 'crashed');
    assert.ok(error.cause instanceof TypeError);
    await rejectsWith(query(forgetful, asking<unknown>, 5), 'timeout');
    await rejectsWith(query(forgetful, asking<unknown>, 5), 'timeout');
    late.open('too late');
    await until(() => letters.length === 1, 'a reply that nobody hears');
    assert.deepEqual([letters[0]?.reason, letters[0]?.message], ['late', 'too late']);
  }));

test('asks with different deadlines end in the order of their deadlines', () =>
  withSystem(async (system) => {
    const silent = spawn<undefined, Asking<string>>(system, () => undefined);
    const ended: number[] = [];
    const timeouts = [150, 10, 400, 70];
    await Promise.all(timeouts.map((ms) => query(silent, asking<string>, ms).catch(() => ended.push(ms))));
    assert.deepEqual(ended, [10, 70, 150, 400]);
  }));

test('a reply may come long after the handler returned, and from another actor', () =>
  withSystem(async (system) => {
    const back = spawn<undefined, Asking<string>>(
      system,
      (_, { replyTo }, ctx) => {
        setImmediate(() => dispatch(replyTo, ctx.name));
        return undefined;
      },
      { name: 'back' },
    );
    const front = spawn<undefined, Asking<string>>(system, (_, msg) => {
      dispatch(back, msg);
      return undefined;
    });
    assert.equal(await query(front, asking<string>, 1000), 'back');
  }));

for (const [how, fail] of [
  [
    'throws',
    () => {
      throw new Error('broken');
    },
  ],
  ['rejects', () => Promise.reject(new Error('broken'))],
] as const) {
  test(`when the handler ${how}, the asker hears crashed at once, with the cause`, () =>
    withSystem(async (system) => {
      const broken = spawn<undefined, Asking<string>>(system, fail);
      const error = await rejectsWith(query(broken, asking<string>, 600_000), 'crashed');
      assert.ok(error.cause instanceof Error);
      assert.equal(error.cause.message, 'broken');
    }));
}

test('a reply before the throw counts', () =>
  withSystem(async (system) => {
    const broken = spawn<undefined, Asking<string>>(system, (_, { replyTo }) => {
      dispatch(replyTo, 'answered');
      throw new Error('broken');
    });
    assert.equal(await query(broken, asking<string>, 1000), 'answered');
  }));

test('queued asks of an actor that stops get stopped at once, queued tells become dead letters', () =>
  withSystem(async (system, { letters }) => {
    const held = gate();
    const busy = spawn<undefined, Asking<string> | string>(system, () => held.opened.then(() => undefined), {
      name: 'busy',
    });
    dispatch(busy, 'first');
    await new Promise((resolve) => setImmediate(resolve));
    const queued = query(busy, asking<string>, 600_000);
    dispatch(busy, 'second');
    stop(busy);
    await rejectsWith(queued, 'stopped');
    assert.deepEqual(
      letters.map(({ reason, message }) => [reason, message]),
      [['stopped', 'second']],
    );
    held.open();
    assert.deepEqual(await stopped(busy), { kind: 'stopped' });
  }));

test('asking an actor that has ended is refused without making the message', () =>
  withSystem(async (system) => {
    const gone = spawn<undefined, Asking<string>>(system, () => undefined);
    stop(gone);
    let made = 0;
    const ask = query(
      gone,
      (replyTo: Ref<string>) => {
        made++;
        return { replyTo };
      },
      1000,
    );
    await rejectsWith(ask, 'stopped');
    assert.equal(made, 0);
  }));

test('the ask in a handler that never ends gets stopped when its actor is stopped and the grace is over', () =>
  withSystem(async (system, { lines }) => {
    const hung = spawn<undefined, Asking<string>>(system, () => new Promise<undefined>(() => {}), { shutdownMs: 5 });
    const pool = spawnStateless<Asking<string>>(system, () => new Promise<undefined>(() => {}), { shutdownMs: 5 });
    const asks = [query(hung, asking<string>, 600_000), query(pool, asking<string>, 600_000)];
    await new Promise((resolve) => setImmediate(resolve));
    stop(hung);
    stop(pool);
    for (const ask of asks) await rejectsWith(ask, 'stopped');
    await Promise.all([stopped(hung), stopped(pool)]);
    assert.equal(lines.filter(({ message }) => message.startsWith('abandoned a handler')).length, 2);
  }));

test('a running handler may still reply within the grace', () =>
  withSystem(async (system) => {
    const held = gate();
    const slow = spawn<undefined, Asking<string>>(system, async (_, { replyTo }) => {
      await held.opened;
      dispatch(replyTo, 'done');
      return undefined;
    });
    const ask = query(slow, asking<string>, 1000);
    await new Promise((resolve) => setImmediate(resolve));
    stop(slow);
    held.open();
    assert.equal(await ask, 'done');
    await stopped(slow);
  }));

test('a message factory that throws rejects the ask with what it threw', () =>
  withSystem(async (system) => {
    const any = spawn<undefined, Asking<string>>(system, () => undefined);
    const failing = (): Asking<string> => {
      throw new TypeError('no message');
    };
    await assert.rejects(query(any, failing, 1000), { name: 'TypeError', message: 'no message' });
  }));

test('a deadline that is none is refused', () =>
  withSystem(async (system) => {
    const any = spawn<undefined, Asking<string>>(system, () => undefined);
    for (const ms of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => query(any, asking<string>, ms), SpawnError);
    }
  }));

test('an ask made in an I/O callback is answered before the next turn of the loop', () =>
  withSystem(async (system) => {
    const echo = spawn<undefined, Asking<string>>(system, (_, { replyTo }) => {
      dispatch(replyTo, 'here');
      return undefined;
    });
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      // Immediates set before the ask run after it was answered.
      setTimeout(() => {
        setImmediate(() => {
          order.push('immediate');
          resolve();
        });
        void query(echo, asking<string>, 1000).then((reply) => order.push(reply));
      }, 1);
    });
    assert.deepEqual(order, ['here', 'immediate']);
  }));

test('a chain of awaited asks does not hold the loop', () =>
  withSystem(async (system) => {
    const echo = spawn<undefined, Asking<string>>(system, (_, { replyTo }) => {
      dispatch(replyTo, 'here');
      return undefined;
    });
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    // Ends only because the timer gets its turn between asks.
    let asks = 0;
    while (ticks < 3) {
      await query(echo, asking<string>, 1000);
      asks++;
    }
    clearInterval(timer);
    assert.ok(asks > 3);
    await until(() => ticks >= 3, 'three ticks');
  }));
