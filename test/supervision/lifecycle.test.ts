import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ActorError,
  type AnyRef,
  type Context,
  dispatch,
  query,
  type Ref,
  SpawnError,
  spawn,
  spawnStateless,
  start,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { type Asking, gate, rejectsWith, timersDue, until, withSystem } from '../support/supervision/system.ts';

const nothing = (): undefined => undefined;

test('stop ends children before their parent, newest first, and tells afterStop the last state', () =>
  withSystem(async (system) => {
    const order: string[] = [];
    const named = (parent: AnyRef, name: string): Ref<string> =>
      spawn<string, string>(parent, (_, msg) => msg, {
        name,
        initialState: 'never told',
        afterStop: (state, ctx) => {
          order.push(`${ctx.name}: ${state}`);
        },
      });
    const top = named(system, 'top');
    const first = named(top, 'first');
    named(first, 'grandchild');
    named(top, 'second');
    dispatch(top, 'told');
    await until(() => stats(system).kinds.actor?.handled === 1, 'the message');
    stop(top, 'enough');
    assert.deepEqual(await stopped(top), { kind: 'stopped', detail: 'enough' });
    assert.deepEqual(await stopped(first), { kind: 'parent' });
    assert.deepEqual(order, ['second: never told', 'grandchild: never told', 'first: never told', 'top: told']);
  }));

test('stopped resolves only when an async afterStop of a descendant is through', () =>
  withSystem(async (system) => {
    const closing = gate();
    const top = spawn<undefined, string>(system, nothing);
    spawn<undefined, string>(top, nothing, { afterStop: () => closing.opened });
    let ended = false;
    stop(top);
    void stopped(top).then(() => {
      ended = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(ended, false);
    closing.open();
    await until(() => ended, 'the end');
  }));

test('an afterStop that ends a sibling does not keep the others from being stopped', () =>
  withSystem(async (system) => {
    const parent = spawn<undefined, string>(system, nothing);
    const oldest = spawn<undefined, string>(parent, nothing);
    const middle = spawn<undefined, string>(parent, nothing);
    spawn<undefined, string>(parent, nothing, { afterStop: () => stop(middle) });
    stop(parent);
    assert.deepEqual(await stopped(oldest), { kind: 'parent' });
    assert.deepEqual(await stopped(middle), { kind: 'stopped' });
    await stopped(parent);
    const peer = spawn<undefined, string>(system, nothing);
    const crasher = spawn<undefined, string>(
      system,
      () => {
        throw new Error('x');
      },
      { onCrash: (_msg, _error, ctx) => ctx.stopAll },
    );
    spawn<undefined, string>(system, nothing, { afterStop: () => stop(crasher) });
    dispatch(crasher, 'x');
    await stopped(peer);
  }));

test('an actor that stops itself finishes its message and handles no other', () =>
  withSystem(async (system, { letters }) => {
    const got: string[] = [];
    const ref = spawn<undefined, string>(system, (_, msg, ctx) => {
      stop(ctx.self);
      got.push(msg);
      return undefined;
    });
    dispatch(ref, 'one');
    dispatch(ref, 'two');
    await stopped(ref);
    assert.deepEqual(got, ['one']);
    assert.deepEqual(
      letters.map(({ message }) => message),
      ['two'],
    );
  }));

test('an afterStop that throws, rejects or hangs is contained', () =>
  withSystem(async (system, { lines }) => {
    const ends = [
      () => {
        throw new Error('sync');
      },
      () => Promise.reject(new Error('async')),
      () => new Promise<void>(() => {}),
    ];
    for (const afterStop of ends) {
      const ref = spawn<undefined, string>(system, nothing, { afterStop, shutdownMs: 5 });
      stop(ref);
      assert.deepEqual(await stopped(ref), { kind: 'stopped' });
    }
    assert.deepEqual(
      lines.map(({ message }) => message),
      ['afterStop failed', 'afterStop failed', 'abandoned an afterStop that did not end in time'],
    );
  }));

test('the signal is aborted when the stop begins, so that a waiting handler can end', () =>
  withSystem(async (system) => {
    const ref = spawn<undefined, string>(
      system,
      (_, _msg, ctx) =>
        new Promise((resolve) => {
          ctx.signal.addEventListener('abort', () => resolve(undefined));
        }),
    );
    dispatch(ref, 'wait');
    await until(() => stats(system).kinds.actor?.handled === 1, 'it waits');
    stop(ref);
    assert.deepEqual(await stopped(ref), { kind: 'stopped' });
  }));

test('stopping twice, stopping what has ended, and asking for the end again are harmless', () =>
  withSystem(async (system) => {
    const ref = spawn<undefined, string>(system, nothing);
    stop(ref, 'first');
    stop(ref, 'second');
    assert.deepEqual(await stopped(ref), { kind: 'stopped', detail: 'first' });
    assert.deepEqual(await stopped(ref), { kind: 'stopped', detail: 'first' });
  }));

test('an actor stopped while its state is being made ends once that is done, and afterStop gets the state', () =>
  withSystem(async (system) => {
    const made = gate<string>();
    const closed: string[] = [];
    const ref = spawn<string, string>(system, (state) => state, {
      initialStateFunc: () => made.opened,
      afterStop: (state) => {
        closed.push(state);
      },
    });
    stop(ref);
    made.open('opened');
    await stopped(ref);
    assert.deepEqual(closed, ['opened']);
    const hasty = spawn<string, string>(system, (state) => state, {
      initialStateFunc: (ctx) => {
        stop(ctx.self);
        return 'hasty';
      },
      afterStop: (state) => {
        closed.push(state);
      },
    });
    await stopped(hasty);
    assert.deepEqual(closed, ['opened', 'hasty']);
  }));

test('nothing can be spawned under an actor that has ended, or under the address of an asker', () =>
  withSystem(async (system) => {
    const ref = spawn<undefined, Asking<boolean>>(system, (_, { replyTo }) => {
      assert.throws(() => spawn(replyTo, nothing), SpawnError);
      dispatch(replyTo, true);
      return undefined;
    });
    assert.equal(await query(ref, (replyTo: Ref<boolean>) => ({ replyTo }), 1000), true);
    stop(ref);
    assert.throws(
      () => spawn(ref, nothing),
      (error) => error instanceof ActorError && error.code === 'stopped',
    );
  }));

test('names are unique among the living, usable, and free again after the end', () =>
  withSystem(async (system) => {
    const ref = spawn<undefined, string>(system, nothing, { name: 'a b' });
    assert.equal(ref.name, 'a b');
    assert.equal(ref.path, 'test://a%20b');
    const code = (expected: string) => (error: unknown) => error instanceof SpawnError && error.code === expected;
    assert.throws(() => spawn(system, nothing, { name: 'a b' }), code('name_taken'));
    for (const name of ['', 'a/b', 'x'.repeat(256), '$1']) {
      assert.throws(() => spawn(system, nothing, { name }), code('invalid'));
    }
    assert.throws(() => spawn(system, nothing, { mailbox: { capacity: 0 } }), code('invalid'));
    assert.throws(() => spawnStateless(system, nothing, { concurrency: 0 }), code('invalid'));
    stop(ref);
    spawn(system, nothing, { name: 'a b' });
  }));

test('a context knows its actor, its parent and its living children', () =>
  withSystem(async (system) => {
    let seen: Context<Asking<unknown>> | undefined;
    const top = spawn<undefined, Asking<unknown>>(
      system,
      (_, { replyTo }, ctx) => {
        seen = ctx;
        dispatch(replyTo, [ctx.name, ctx.path, ctx.self === top, ctx.parent === system]);
        return undefined;
      },
      { name: 'top' },
    );
    const a = spawn(top, nothing, { name: 'a' });
    const unnamed = spawn(top, nothing);
    assert.deepEqual(await query(top, (replyTo: Ref<unknown>) => ({ replyTo }), 1000), [
      'top',
      'test://top',
      true,
      true,
    ]);
    const children = seen?.children;
    assert.ok(children !== undefined);
    assert.equal(children.size, 2);
    assert.equal(children.get('a'), a);
    assert.equal(children.get(unnamed.name), unnamed);
    assert.equal(children.has('b'), false);
    assert.deepEqual([...children.keys()], ['a', unnamed.name]);
    assert.deepEqual([...children.values()], [a, unnamed]);
    for (const child of children.values()) stop(child);
    const left: string[] = [];
    children.forEach((_ref, name) => {
      left.push(name);
    });
    assert.deepEqual(left, []);
  }));

test('timers send to their actor, can be cancelled, and end with it', () =>
  withSystem(async (system, { letters }) => {
    const seen: string[] = [];
    let context: Context<string> | undefined;
    const ref = spawn<undefined, string>(
      system,
      (_, msg) => {
        seen.push(msg);
        return undefined;
      },
      {
        initialStateFunc: (ctx) => {
          context = ctx;
          ctx.every(1, 'beat');
          ctx.after(1, 'once');
          ctx.after(2, 'cancelled')();
          ctx.every(1, 'cancelled')();
          ctx.after(20, 'too late');
          return undefined;
        },
      },
    );
    await until(() => seen.filter((msg) => msg === 'beat').length >= 3 && seen.includes('once'), 'timers');
    stop(ref);
    const before = seen.length;
    context?.after(1, 'from the dead');
    context?.every(1, 'from the dead');
    await timersDue(system, 30);
    assert.equal(seen.length, before);
    assert.ok(!seen.includes('cancelled'));
    assert.deepEqual(letters, []);
  }));

test('a beat is left out while the one before still waits', () =>
  withSystem(async (system) => {
    const held = gate();
    const ref = spawn<undefined, string>(system, () => held.opened.then(nothing), {
      initialStateFunc: (ctx) => {
        ctx.every(1, 'beat');
        return undefined;
      },
    });
    dispatch(ref, 'hold');
    let beats = 0;
    const timer = setInterval(() => beats++, 1);
    await until(() => beats >= 10, 'ten beats');
    clearInterval(timer);
    assert.equal(stats(system).kinds.actor?.depth, 1);
    held.open();
  }));

test('an actor stops when it was idle for shutdownAfter, not while it works or a message waits', () =>
  withSystem(async (system) => {
    let handled = 0;
    const ref = spawn<undefined, number>(
      system,
      async (_, ms, ctx) => {
        await timersDue(system, ms);
        if (++handled === 1) dispatch(ctx.self, 0);
        return undefined;
      },
      { shutdownAfter: 15 },
    );
    dispatch(ref, 40);
    assert.deepEqual(await stopped(ref), { kind: 'idle' });
    assert.equal(handled, 2);
  }));

test('a system that is stopped ends all its actors and takes no more', async () => {
  const system = start();
  const ref = spawn<undefined, string>(system, nothing);
  assert.equal(system.name, 'system');
  stop(system);
  assert.deepEqual(await stopped(system), { kind: 'stopped' });
  assert.deepEqual(await stopped(ref), { kind: 'parent' });
  assert.throws(() => spawn(system, nothing), ActorError);
  await rejectsWith(
    query(ref, (replyTo: Ref<string>) => String(replyTo.path), 10),
    'stopped',
  );
});

test('a log or a dead letter listener that throws breaks nothing', async () => {
  const fail = (): never => {
    throw new Error('no log');
  };
  const log = { debug: fail, info: fail, warn: fail, error: fail, child: fail };
  const system = start({ log, onDeadLetter: fail });
  const ref = spawn<undefined, string>(system, (_, msg, ctx) => {
    ctx.log.info({}, 'never seen');
    throw new Error(msg);
  });
  dispatch(ref, 'x');
  assert.equal((await stopped(ref)).kind, 'crashed');
  dispatch(ref, 'y');
  assert.equal(stats(system).deadLetters, 1);
  stop(system);
});
