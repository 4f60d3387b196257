import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoffDelay, countRestart } from '../../supervision/cell/restarting.ts';
import {
  type AnyRef,
  type CrashContext,
  type Decision,
  dispatch,
  query,
  type Ref,
  type SystemRef,
  spawn,
  spawnStateless,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { gate, rejectsWith, timersDue, until, withSystem } from '../support/supervision/system.ts';

/** A counter that adds, crashes on demand, and says what it has. */
type CounterMessage =
  | { readonly type: 'add' }
  | { readonly type: 'crash' }
  | { readonly type: 'get'; readonly replyTo: Ref<number> };
type Policy = (ctx: CrashContext<CounterMessage>) => Decision | Promise<Decision>;

function counter(parent: AnyRef | SystemRef, name: string, policy?: Policy): Ref<CounterMessage> {
  return spawn<number, CounterMessage>(
    parent,
    (n, msg) => {
      if (msg.type === 'crash') throw new Error(`${name} crashed`);
      if (msg.type === 'get') dispatch(msg.replyTo, n);
      return msg.type === 'add' ? n + 1 : n;
    },
    {
      name,
      initialState: 0,
      ...(policy === undefined ? {} : { onCrash: (_msg, _error, ctx) => policy(ctx) }),
    },
  );
}

const value = (ref: Ref<CounterMessage>): Promise<number> =>
  query(ref, (replyTo: Ref<number>) => ({ type: 'get' as const, replyTo }), 1000);

/** A parent of three counters, each at 2, whose children escalate; it decides by `policy`. */
function family(system: SystemRef, policy: (ctx: CrashContext<string>) => Decision) {
  const children: Ref<CounterMessage>[] = [];
  const parent = spawn<string, string>(system, (_, msg) => msg, {
    name: 'parent',
    initialState: 'new',
    onCrash: (_msg, _error, ctx) => policy(ctx),
  });
  for (const name of ['a', 'b', 'c']) children.push(counter(parent, name, (ctx) => ctx.escalate));
  for (const child of children) {
    dispatch(child, { type: 'add' });
    dispatch(child, { type: 'add' });
  }
  return { parent, children };
}

const values = (refs: readonly Ref<CounterMessage>[]): Promise<(number | string)[]> =>
  Promise.all(refs.map((ref) => value(ref).catch((error: { code: string }) => error.code)));

test('without a policy an actor that throws stops, with the error as its reason', () =>
  withSystem(async (system) => {
    const ref = counter(system, 'plain');
    dispatch(ref, { type: 'crash' });
    const reason = await stopped(ref);
    assert.equal(reason.kind, 'crashed');
    assert.ok('error' in reason && reason.error instanceof Error && reason.error.message === 'plain crashed');
  }));

test('resume goes on with the state from before the crash', () =>
  withSystem(async (system) => {
    const ref = counter(system, 'r', (ctx) => ctx.resume);
    dispatch(ref, { type: 'add' });
    dispatch(ref, { type: 'crash' });
    dispatch(ref, { type: 'add' });
    assert.equal(await value(ref), 2);
  }));

test('reset starts afresh and keeps what waits', () =>
  withSystem(async (system) => {
    const ref = counter(system, 'r', (ctx) => ctx.reset);
    dispatch(ref, { type: 'add' });
    dispatch(ref, { type: 'crash' });
    dispatch(ref, { type: 'add' });
    assert.equal(await value(ref), 1);
    assert.equal(stats(system).kinds.actor?.restarts, 1);
  }));

test('reset ends children, timers, watches and the signal of the life before', () =>
  withSystem(async (system) => {
    const seen: string[] = [];
    const signals: AbortSignal[] = [];
    const other = counter(system, 'other');
    const ref = spawn<undefined, string>(
      system,
      (_, msg) => {
        if (msg === 'crash') throw new Error('crash');
        seen.push(msg);
        return undefined;
      },
      {
        initialStateFunc: (ctx) => {
          if (signals.length === 0) {
            ctx.after(20, 'timer of the first life');
            ctx.watch(other, () => 'watch of the first life');
            counter(ctx.self, 'child');
          }
          signals.push(ctx.signal);
          seen.push(`life ${signals.length}, ${ctx.children.size} children`);
          return undefined;
        },
        onCrash: (_msg, _error, ctx) => ctx.reset,
      },
    );
    dispatch(ref, 'crash');
    await until(() => signals.length === 2, 'the second life');
    stop(other);
    dispatch(ref, 'hello');
    await timersDue(system, 30);
    assert.deepEqual(seen, ['life 1, 1 children', 'life 2, 0 children', 'hello']);
    assert.deepEqual(
      signals.map((signal) => signal.aborted),
      [true, false],
    );
  }));

for (const [decision, children, parentState] of [
  ['resume', [2, 2, 2], 'lives'],
  ['stop', ['stopped', 'stopped', 'stopped'], 'ended'],
  ['stopAll', ['stopped', 'stopped', 'stopped'], 'ended'],
  ['stopChild', ['stopped', 2, 2], 'lives'],
  ['stopAllChildren', ['stopped', 'stopped', 'stopped'], 'lives'],
  ['reset', ['stopped', 'stopped', 'stopped'], 'lives'],
  ['resetAll', ['stopped', 'stopped', 'stopped'], 'lives'],
  ['resetChild', [0, 2, 2], 'lives'],
  ['resetAllChildren', [0, 0, 0], 'lives'],
  ['escalate', ['stopped', 'stopped', 'stopped'], 'ended'],
] as const) {
  test(`a parent that decides ${decision} about an escalated crash`, () =>
    withSystem(async (system) => {
      const { parent, children: refs } = family(system, (ctx) => ctx[decision]);
      const [first] = refs;
      assert.ok(first !== undefined);
      assert.deepEqual(await values(refs), [2, 2, 2]);
      dispatch(first, { type: 'crash' });
      const shows = async () => JSON.stringify(await values(refs)) === JSON.stringify(children);
      for (let i = 0; i < 500 && !(await shows()); i++) await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(await values(refs), children);
      const reason = await Promise.race([stopped(parent), Promise.resolve(undefined)]);
      assert.equal(reason === undefined ? 'lives' : 'ended', parentState);
    }));
}

test('stopAll and resetAll reach the peers of the one who decides', () =>
  withSystem(async (system) => {
    const a = counter(system, 'a', (ctx) => ctx.resetAll);
    const b = counter(system, 'b');
    dispatch(b, { type: 'add' });
    assert.equal(await value(b), 1);
    dispatch(a, { type: 'crash' });
    await until(() => stats(system).kinds.actor?.restarts === 2, 'both were reset');
    assert.deepEqual(await values([a, b]), [0, 0]);
    const c = counter(system, 'c', (ctx) => ctx.stopAll);
    dispatch(c, { type: 'crash' });
    await Promise.all([stopped(a), stopped(b), stopped(c)]);
  }));

test('a decision may take its time; messages wait for it', () =>
  withSystem(async (system) => {
    const decided = gate<Decision>();
    const ref = counter(system, 'slow', () => decided.opened);
    dispatch(ref, { type: 'crash' });
    let answered = false;
    const ask = value(ref).then((n) => {
      answered = true;
      return n;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(answered, false);
    let symbol: Decision | undefined;
    const teller = counter(system, 'teller', (ctx) => {
      symbol = ctx.resume;
      return ctx.stop;
    });
    dispatch(teller, { type: 'crash' });
    await stopped(teller);
    assert.ok(symbol !== undefined);
    decided.open(symbol);
    assert.equal(await ask, 0);
  }));

test('what a parent decides late about a stateless child counts, though the child has ended since', () =>
  withSystem(async (system) => {
    const asked = gate();
    const decided = gate();
    const parent = spawn(system, (state: number) => state, {
      name: 'parent',
      initialState: 0,
      onCrash: (_msg, _error, ctx) => {
        asked.open();
        return decided.opened.then(() => ctx.stop);
      },
    });
    const child = spawnStateless<string>(
      parent,
      () => {
        throw new Error('child crashed');
      },
      { name: 'child', onCrash: (_msg, _error, ctx) => ctx.escalate },
    );
    dispatch(child, 'anything');
    await asked.opened;
    stop(child);
    await stopped(child);
    decided.open();
    assert.equal((await stopped(parent)).kind, 'crashed');
  }));

test('a policy that throws or rejects is contained: the actor stops', () =>
  withSystem(async (system, { lines }) => {
    const thrower = counter(system, 'thrower', () => {
      throw new Error('policy');
    });
    const rejecter = counter(system, 'rejecter', () => Promise.reject(new Error('policy')));
    dispatch(thrower, { type: 'crash' });
    dispatch(rejecter, { type: 'crash' });
    assert.equal((await stopped(thrower)).kind, 'crashed');
    assert.equal((await stopped(rejecter)).kind, 'crashed');
    assert.equal(lines.filter(({ message }) => message.startsWith('onCrash failed')).length, 2);
  }));

test('each crash is one line with its decision and cause, and without the message', () =>
  withSystem(async (system, { lines }) => {
    const {
      children: [first],
    } = family(system, (ctx) => ctx.resetChild);
    assert.ok(first !== undefined);
    dispatch(first, { type: 'crash' });
    await value(first);
    assert.equal(lines.length, 1);
    const { err, ...fields } = lines[0]?.fields ?? {};
    assert.deepEqual(fields, {
      actor: 'test://parent/a',
      kind: 'actor',
      decidedBy: 'test://parent',
      decision: 'resetChild',
    });
    assert.ok(err instanceof Error && err.message === 'a crashed');
  }));

test('past its intensity a reset escalates, and at the top it ends the actor', () =>
  withSystem(async (system) => {
    let lives = 0;
    const ref = spawn<undefined, string>(
      system,
      () => {
        throw new Error('again');
      },
      {
        initialStateFunc: () => {
          lives++;
          return undefined;
        },
        onCrash: (_msg, _error, ctx) => ctx.reset,
        intensity: { max: 3, withinMs: 60_000 },
      },
    );
    for (let i = 0; i < 10; i++) dispatch(ref, 'x');
    const reason = await stopped(ref);
    assert.equal(reason.kind, 'intensity');
    assert.equal(lives, 4);
  }));

test('past the intensity of a child its parent decides', () =>
  withSystem(async (system) => {
    let decisions = 0;
    const parent = spawn<undefined, string>(system, () => undefined, {
      onCrash: (_msg, error, ctx, child) => {
        decisions++;
        assert.ok(error instanceof Error && error.message.endsWith('crashed too often'));
        assert.ok(child !== undefined);
        return ctx.stopChild;
      },
    });
    const child = spawn<undefined, string>(
      parent,
      () => {
        throw new Error('again');
      },
      { onCrash: (_msg, _error, ctx) => ctx.reset, intensity: { max: 1, withinMs: 60_000 } },
    );
    for (let i = 0; i < 5; i++) dispatch(child, 'x');
    assert.equal((await stopped(child)).kind, 'intensity');
    assert.equal(decisions, 1);
  }));

test('a parent that always resets a child that crashes too often does not keep a crash loop going', () =>
  withSystem(async (system) => {
    let starts = 0;
    const parent = spawn(system, () => undefined, { onCrash: (_msg, _error, ctx) => ctx.resetChild });
    const ref = spawn<undefined, string>(parent, () => undefined, {
      intensity: { max: 3, withinMs: 60_000 },
      initialStateFunc: () => {
        if (++starts > 100) return undefined;
        throw new Error('no state');
      },
      onCrash: (_msg, _error, ctx) => ctx.reset,
    });
    assert.equal((await stopped(ref)).kind, 'intensity');
    assert.equal(starts, 4);
    stop(parent);
  }));

test('restarts are counted within a moving window', () => {
  const times: number[] = [];
  const limit = { max: 2, withinMs: 100 };
  assert.equal(countRestart(times, limit, 0), true);
  assert.equal(countRestart(times, limit, 50), true);
  assert.equal(countRestart(times, limit, 99), false);
  assert.equal(countRestart(times, limit, 100), true);
  assert.equal(countRestart(times, limit, 120), false);
  assert.equal(countRestart(times, limit, 150), true);
});

test('the backoff doubles up to its maximum, and half of it is random', () => {
  const backoff = { minMs: 100, maxMs: 1000 };
  const least = [1, 2, 3, 4, 5, 50].map((n) => backoffDelay(backoff, n, () => 0));
  const most = [1, 2, 3, 4, 5, 50].map((n) => backoffDelay(backoff, n, () => 1));
  assert.deepEqual(least, [50, 100, 200, 400, 500, 500]);
  assert.deepEqual(most, [100, 200, 400, 800, 1000, 1000]);
  assert.equal(
    backoffDelay(undefined, 3, () => 1),
    0,
  );
});

test('a reset with a backoff waits, and can be stopped meanwhile', () =>
  withSystem(async (system) => {
    const ref = spawn<number, string>(
      system,
      () => {
        throw new Error('x');
      },
      { onCrash: (_msg, _error, ctx) => ctx.reset, backoff: { minMs: 600_000, maxMs: 600_000 } },
    );
    dispatch(ref, 'x');
    await until(() => stats(system).kinds.actor?.restarts === 1, 'the reset began');
    stop(ref);
    assert.deepEqual(await stopped(ref), { kind: 'stopped' });
  }));

test('messages wait for a state that takes its time; when it cannot be made, asks get crashed with the cause', () =>
  withSystem(async (system, { letters }) => {
    const made = gate<number>();
    const late = spawn<number, CounterMessage>(
      system,
      (n, msg) => {
        if (msg.type === 'get') dispatch(msg.replyTo, n);
        return n;
      },
      { initialStateFunc: () => made.opened },
    );
    const ask = value(late);
    made.open(7);
    assert.equal(await ask, 7);

    for (const initialStateFunc of [
      () => Promise.reject(new Error('no state')),
      () => {
        throw new Error('no state');
      },
    ]) {
      const never = spawn<number, CounterMessage>(system, (n) => n, {
        initialStateFunc,
        onCrash: (msg, _error, ctx) => {
          assert.equal(msg, undefined);
          return Promise.resolve(ctx.stop);
        },
      });
      const refused = value(never);
      dispatch(never, { type: 'add' });
      const error = await rejectsWith(refused, 'crashed');
      assert.ok(error.cause instanceof Error && error.cause.message === 'no state');
      assert.equal((await stopped(never)).kind, 'crashed');
    }
    assert.deepEqual(
      letters.map(({ reason }) => reason),
      ['crashed', 'crashed'],
    );
  }));

test('onCrash sees the messages that wait', () =>
  withSystem(async (system) => {
    let waiting: readonly CounterMessage[] = [];
    const ref = counter(system, 'w', (ctx) => {
      waiting = ctx.mailbox;
      return ctx.resume;
    });
    dispatch(ref, { type: 'crash' });
    dispatch(ref, { type: 'add' });
    dispatch(ref, { type: 'add' });
    assert.equal(await value(ref), 2);
    assert.deepEqual(
      waiting.map(({ type }) => type),
      ['add', 'add', 'get'],
    );
  }));

test('a peer that is reset in the middle of a handler which does not end is abandoned, and goes on', () =>
  withSystem(async (system) => {
    let hang = true;
    const stuck = spawn<number, CounterMessage>(
      system,
      (n, msg) => {
        if (msg.type === 'get') dispatch(msg.replyTo, n);
        return hang ? new Promise<number>(() => {}) : n;
      },
      { initialStateFunc: () => 5, shutdownMs: 5 },
    );
    dispatch(stuck, { type: 'add' });
    await until(() => stats(system).kinds.actor?.handled === 1, 'the handler hangs');
    const crasher = counter(system, 'crasher', (ctx) => ctx.resetAll);
    hang = false;
    dispatch(crasher, { type: 'crash' });
    assert.equal(await value(stuck), 5);
  }));
