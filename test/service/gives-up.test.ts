/** A service whose parts fail whenever they are started, in virtual time. */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { type TestContext, test } from 'node:test';
import { startService } from '../../actors/service/start-service.ts';
import { type AnyRef, type SystemClock, type SystemRef, spawn, start, stop, stopped } from '../../supervision/index.ts';

const MINUTE_MS = 60_000;

/** The process's clock, whose mocked timers lack `close`. */
const MOCKED: SystemClock = {
  now: () => performance.now(),
  setTimeout: (f, ms) => {
    const timer = setTimeout(f, ms);
    return { close: () => clearTimeout(timer), ref: () => timer.ref(), unref: () => timer.unref() };
  },
};

/** Lets `ms` pass on the clock and for the timers, until `isOver`. */
async function pass(t: TestContext, ms: number, isOver: () => boolean, clock: { passed: number }): Promise<void> {
  for (let step = 0; step < ms && !isOver(); step += 50) {
    clock.passed += 50;
    t.mock.timers.tick(50);
    for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve));
  }
}

async function setting(t: TestContext, failing: number) {
  const clock = { passed: 0 };
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + clock.passed);
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  const seen = { up: [] as boolean[], gaveUp: [] as string[], fails: false };
  const system: SystemRef = start({ clock: MOCKED, onGivingUp: (name) => seen.gaveUp.push(name) });
  const part = (id: number) => (parent: AnyRef) =>
    spawn<null, 'beat'>(
      parent,
      (state) => {
        if (seen.fails && id < failing) throw new Error(`part ${id} crashed`);
        return state;
      },
      {
        initialStateFunc: (ctx) => {
          ctx.every(10, 'beat');
          return null;
        },
      },
    );
  const service = await startService(system, {
    name: 'auth',
    endpoints: [],
    db: { ping: async () => {} },
    parts: { one: part(0), two: part(1), three: part(2) },
    placement: { setUp: (_service, isUp) => seen.up.push(isUp) },
  });
  const end = async () => {
    stop(system);
    await stopped(system);
  };
  return { service, seen, clock, end };
}

for (const failing of [1, 2]) {
  test(`a service of which ${failing} of three parts crash again and again goes down, is restarted, and is given up`, async (t) => {
    const { service, seen, clock, end } = await setting(t, failing);
    assert.deepEqual(seen.up, [true]);
    seen.fails = true;
    await pass(t, MINUTE_MS, () => seen.up.includes(false), clock);
    assert.deepEqual(seen.up, [true, false], 'it went down within a minute');
    assert.equal((await service.health()).ok, false);
    await pass(t, MINUTE_MS, () => seen.up.length === 3, clock);
    assert.deepEqual([seen.up, seen.gaveUp], [[true, false, true], []], 'it is up again');
    assert.equal((await service.health()).ok, true);
    await pass(t, 5 * MINUTE_MS, () => seen.gaveUp.length > 0, clock);
    assert.deepEqual(seen.gaveUp, ['auth']);
    assert.equal(seen.up.at(-1), false);
    await pass(t, MINUTE_MS, () => false, clock);
    assert.match((await service.health()).problems.join(), /has stopped \(intensity\)/);
    await end();
  });
}

test('a service whose parts fail once in a while stays up', async (t) => {
  const { service, seen, clock, end } = await setting(t, 3);
  for (let minute = 0; minute < 20; minute++) {
    seen.fails = true;
    await pass(t, 100, () => false, clock);
    seen.fails = false;
    await pass(t, MINUTE_MS, () => false, clock);
  }
  assert.deepEqual([seen.up, await service.health()], [[true], { ok: true, problems: [] }]);
  await end();
});
