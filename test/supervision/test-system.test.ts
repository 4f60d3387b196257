import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellOf } from '../../supervision/cell/context.ts';
import {
  dispatch,
  entities,
  query,
  type Ref,
  spawn,
  spawnStateless,
  start,
  startSupervisor,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { Probe, TestSystem } from '../../supervision/testing/index.ts';
import { type Asking, openAsks, rejectsWith } from '../support/supervision/system.ts';

/** Actors that race: many senders, timers, a crash loop with a backoff, entities. Gives the trace of all that. */
async function race(seed: number): Promise<string> {
  const time = new TestSystem({ seed });
  const sink = new Probe<string>(time.ref);
  const flaky = spawn<number, string>(
    time.ref,
    (count, message) => {
      if (count === 2) throw new Error(message);
      dispatch(sink.ref, message);
      return count + 1;
    },
    {
      name: 'flaky',
      initialState: 0,
      backoff: { minMs: 10, maxMs: 1000 },
      onCrash: (_message, _error, ctx) => ctx.reset,
    },
  );
  const all = entities<string, number>(time.ref, {
    kind: 'thing',
    sleepAfterMs: 50,
    activate: async () => 0,
    handle: async (state, message) => {
      await null;
      dispatch(sink.ref, message);
      return state + 1;
    },
  });
  for (const name of ['a', 'b', 'c', 'd']) {
    spawn<undefined, string>(
      time.ref,
      (_, message) => {
        dispatch(flaky, `${message} of ${name}`);
        all.tell(name, message);
        return undefined;
      },
      {
        name,
        initialStateFunc: (ctx) => {
          ctx.every(7, 'beat');
          ctx.after(20, 'late');
          return undefined;
        },
      },
    );
  }
  await time.advance(100);
  await time.end();
  return time.trace.join('\n');
}

test('the same seed gives the same trace, another seed another one', async () => {
  const first = await race(1);
  assert.ok(first.split('\n').length > 200);
  assert.equal(await race(1), first);
  const traces = new Set(await Promise.all([1, 2, 3, 4, 5].map(race)));
  assert.equal(traces.size, 5);
  assert.ok(traces.has(first), 'systems beside it change nothing');
});

test('messages of one sender stay in order, and those of several meet in an order of the seed', async () => {
  const orders = new Set<string>();
  for (let seed = 0; seed < 50; seed++) {
    const time = new TestSystem({ seed });
    const got = new Probe<string>(time.ref);
    for (const name of ['a', 'b']) {
      const sender = spawnStateless(time.ref, (n: number) => dispatch(got.ref, `${name}${n}`));
      dispatch(sender, 1);
      dispatch(sender, 2);
    }
    await time.settle();
    const order = got.take();
    for (const name of ['a', 'b']) {
      assert.deepEqual(
        order.filter((each) => each.startsWith(name)),
        [`${name}1`, `${name}2`],
      );
    }
    orders.add(order.join(' '));
    await time.end();
  }
  assert.equal(orders.size, 6, 'all that can be');
});

test('time stands still until it is moved on, and each timer fires at its time', async () => {
  const time = new TestSystem();
  const seen: number[] = [];
  const ref = spawn<undefined, 'beat' | 'end'>(
    time.ref,
    (_, message, ctx) => {
      seen.push(time.now);
      if (message === 'end') stop(ctx.self);
      return undefined;
    },
    {
      initialStateFunc: (ctx) => {
        ctx.every(40, 'beat');
        ctx.after(100, 'end');
        return undefined;
      },
    },
  );
  await time.settle();
  assert.deepEqual(seen, []);
  await time.advance(50);
  assert.equal(time.now, 50);
  assert.deepEqual(seen, [40]);
  assert.equal(await time.advanceToNext(), true);
  assert.equal(time.now, 80);
  assert.deepEqual(await time.until(stopped(ref)), { kind: 'stopped' });
  assert.deepEqual(seen, [40, 80, 100]);
  assert.equal(await time.advanceToNext(), false);
  await assert.rejects(time.until(new Promise(() => {})), { code: 'timeout', message: /^nothing is left to happen/ });
  await assert.rejects(time.advance(-1), { code: 'invalid' });
});

test('asks, backoffs, intensities and deadlines are on the time of the system', async () => {
  const began = performance.now();
  const time = new TestSystem();
  const silent: Ref<object> = spawn(time.ref, () => undefined);
  const answer = query(silent, (replyTo) => ({ replyTo }), 3_600_000);
  await assert.rejects(time.until(answer), { code: 'timeout' });
  assert.ok(time.now >= 3_600_000 && time.now < 3_640_000);

  const starts: number[] = [];
  const begin = time.now;
  const supervisor = await time.until(
    startSupervisor(time.ref, {
      name: 'shop',
      strategy: 'one-for-one',
      intensity: { max: 5, withinMs: 600_000 },
      backoff: { minMs: 1000, maxMs: 60_000 },
      children: [
        {
          id: 'child',
          restart: 'permanent',
          shutdownMs: 10_000,
          start: (parent) => {
            starts.push(time.now - begin);
            const child = spawn<undefined, 'fail'>(parent, () => {
              throw new Error('fails');
            });
            dispatch(child, 'fail');
            return child;
          },
        },
      ],
    }),
  );
  assert.equal((await time.until(stopped(supervisor))).kind, 'intensity');
  assert.equal(starts.length, 6);
  for (let n = 1; n < starts.length; n++) {
    const pause = (starts[n] ?? 0) - (starts[n - 1] ?? 0);
    assert.ok(pause >= 500 * 2 ** (n - 1) && pause <= 1000 * 2 ** (n - 1), `${pause} ms before start ${n}`);
  }

  const slow = entities<string, string>(time.ref, {
    kind: 'slow',
    sleepAfterMs: 1000,
    activateMs: 30_000,
    activate: () => new Promise(() => {}),
    handle: (state) => state,
  });
  const asked = time.now;
  await assert.rejects(
    time.until(slow.ask('a', () => 'x', 600_000)),
    (error: { readonly cause?: { readonly code?: string } }) => error.cause?.code === 'timeout',
  );
  assert.equal(time.now - asked, 30_000);
  await time.end();
  assert.ok(performance.now() - began < 5000, 'nothing waits');
});

test('actors that keep each other busy for ever are told of', async () => {
  const time = new TestSystem();
  const ref: Ref<number> = spawn(time.ref, (_: undefined, n: number, ctx) => {
    dispatch(ctx.self, n + 1);
    return undefined;
  });
  dispatch(ref, 1);
  await assert.rejects(time.settle(), { code: 'timeout', message: /busy for ever/ });
  stop(ref);
  await time.end();
});

test('a system on its own clock and one of the process are apart', async () => {
  const real = start();
  const time = new TestSystem();
  const ask = (ref: Ref<Ref<number>>, ms: number) => query(ref, (replyTo: Ref<number>) => replyTo, ms);
  const spawnClock = (system: typeof real) =>
    spawnStateless<Ref<number>>(system, (replyTo) => dispatch(replyTo, stats(system).kinds.actor?.handled ?? 0));
  const [here, there] = [spawnClock(real), spawnClock(time.ref)];
  const never: Ref<Ref<number>> = spawn(time.ref, () => new Promise<undefined>(() => {}), { shutdownMs: 0 });
  const waiting = ask(never, 1000);
  assert.deepEqual(await Promise.all([ask(here, 1000), time.until(ask(there, 1000))]), [0, 0]);
  await assert.rejects(time.until(waiting), { code: 'timeout' });
  stop(real);
  await stopped(real);
  await time.end();
});

test('a clock, a source of random numbers and a schedule can be handed in one by one', async () => {
  const chosen: number[] = [];
  const system = start({
    random: () => 0,
    schedule: {
      next: (waiting) => {
        chosen.push(waiting.length);
        return waiting.length - 1;
      },
    },
  });
  const got = new Probe<string>(system);
  for (const name of ['a', 'b', 'c'])
    dispatch(
      spawnStateless(system, (message: string) => dispatch(got.ref, message)),
      name,
    );
  assert.deepEqual([await got.next(), await got.next(), await got.next()], ['c', 'b', 'a']);
  assert.deepEqual(chosen, [3, 3, 2, 2, 1, 1]);
  stop(system);
  await stopped(system);

  let now = 0;
  const timed = start({ clock: { now: () => now, setTimeout: (f, ms) => setTimeout(f, ms / 1000) } });
  const probe = new Probe<string>(timed);
  spawn<undefined, string>(timed, (_, message) => void dispatch(probe.ref, message), {
    initialStateFunc: (ctx) => void ctx.after(60_000, 'a minute'),
  });
  assert.equal(await probe.next(600_000), 'a minute');
  const busy: Ref<string> = spawn(timed, () => new Promise<undefined>(() => {}), { kind: 'busy', shutdownMs: 0 });
  dispatch(busy, 'long');
  await new Promise(setImmediate);
  now = 5000;
  assert.equal(stats(timed).kinds.busy?.oldestMs, 5000);
  stop(timed);
  await stopped(timed);
});

test('two systems share no run queue, no open asks and no spare mailboxes', async () => {
  const systems = [start(), start()];
  const [one, other] = systems.map((system) => cellOf(system).kind);
  assert.ok(one !== undefined && other !== undefined);
  assert.notEqual(one.queue, other.queue);
  assert.notEqual(one.mailboxes, other.mailboxes);
  const [first] = systems;
  assert.ok(first !== undefined);
  const silent = spawn<undefined, Asking<string>>(first, () => undefined);
  const asked = query(silent, (replyTo: Ref<string>) => ({ replyTo }), 20);
  assert.deepEqual([openAsks(first), other.queue.deadlines.waiting], [1, 0]);
  await rejectsWith(asked, 'timeout');
  for (const system of systems) stop(system);
  await Promise.all(systems.map((system) => stopped(system)));
});

test('with a pace, what actors wait for comes so many times sooner, and deadlines do not', async () => {
  const time = new TestSystem({ pace: 10 });
  const came: string[] = [];
  spawn<undefined, string>(time.ref, (_, message) => void came.push(`${message} ${time.now}`), {
    initialStateFunc: (ctx) => {
      ctx.after(1000, 'once');
      ctx.every(600, 'again');
    },
  });
  let lives = 0;
  const crashing: Ref<string> = spawn(time.ref, () => assert.fail('a defect'), {
    initialStateFunc: () => void came.push(`life ${lives++} ${time.now}`),
    onCrash: (_message, _error, ctx) => ctx.reset,
    backoff: { minMs: 200, maxMs: 200 },
  });
  dispatch(crashing, 'crash');
  const silent = spawn<undefined, Asking<string>>(time.ref, () => undefined);
  const asked = query(silent, (replyTo: Ref<string>) => ({ replyTo }), 500);
  await time.advance(130);
  assert.deepEqual(
    came.filter((line) => !line.startsWith('life')),
    ['again 60', 'once 100', 'again 120'],
  );
  assert.equal(came.filter((line) => line.startsWith('life')).length, 2);
  assert.equal(openAsks(time.ref), 1);
  await Promise.all([rejectsWith(asked, 'timeout'), time.advance(400)]);
  await time.end();
  assert.throws(() => start({ pace: 0 }), { code: 'invalid' });
});
