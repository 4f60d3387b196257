import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  dispatch,
  type SystemRef,
  spawn,
  spawnStateless,
  start,
  stop,
  stopped,
  tree,
} from '../../supervision/index.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type KeptLog, keptLog } from '../support/log.ts';
import { gate, until } from '../support/supervision/system.ts';

failOnLeaks();

const LONG = 'a handler runs for long';
const ENDED = 'a handler that ran for long is over';

/** A system that names handlers after `longHandlerMs`; its log. Ended after `f`. */
async function watched(
  longHandlerMs: number,
  f: (system: SystemRef, log: KeptLog) => Promise<void>,
  messageType?: (message: unknown) => string | undefined,
): Promise<void> {
  const log = keptLog();
  const system = start({ name: 'test', log, longHandlerMs, ...(messageType === undefined ? {} : { messageType }) });
  try {
    await f(system, log);
  } finally {
    stop(system);
    await stopped(system);
  }
}

function linesOf({ lines }: KeptLog, text: string) {
  return lines.filter(({ message }) => message === text).map(({ fields }) => fields);
}

test('a handler that passes the bound is named once, and once more when it ends', () =>
  watched(40, async (system, log) => {
    const { opened, open } = gate();
    const parent = spawn(system, () => undefined, { name: 'ward', kind: 'ward' });
    const patient = spawn<undefined, { type: string; password: string }>(parent, () => opened.then(() => undefined), {
      name: 'patient',
      kind: 'patient',
    });
    dispatch(patient, { type: 'operate', password: 'hunter2' });
    await until(() => linesOf(log, LONG).length > 0, 'the handler is named');
    const [named] = linesOf(log, LONG);
    assert.equal(named?.actor, 'test://ward/patient');
    assert.equal(named?.kind, 'patient');
    assert.equal(named?.message, 'operate');
    assert.ok(Number(named?.ms) >= 40, `${named?.ms} ms`);
    assert.equal(linesOf(log, ENDED).length, 0);
    open();
    await until(() => linesOf(log, ENDED).length > 0, 'its end is told');
    const [ended] = linesOf(log, ENDED);
    assert.equal(ended?.actor, 'test://ward/patient');
    assert.equal(ended?.message, 'operate');
    assert.ok(Number(ended?.ms) >= Number(named?.ms));
    assert.equal(linesOf(log, LONG).length, 1);
    assert.ok(!JSON.stringify(log.lines).includes('hunter2'));
  }));

test('a handler within the bound is not named', () =>
  watched(60, async (system, log) => {
    const { opened, open } = gate();
    const long = spawn<undefined, string>(system, () => opened.then(() => undefined), { kind: 'long' });
    const short = spawn<undefined, string>(
      system,
      async (_state, _message, ctx) => {
        await new Promise((resolve) => setImmediate(resolve));
        dispatch(ctx.self, 'again');
        return undefined;
      },
      { kind: 'short' },
    );
    dispatch(short, 'first');
    dispatch(long, 'only');
    await until(() => linesOf(log, LONG).length > 0, 'the long one is named');
    open();
    await until(() => linesOf(log, ENDED).length > 0, 'its end is told');
    assert.deepEqual([...new Set(linesOf(log, LONG).map(({ kind }) => kind))], ['long']);
  }));

test('handlers of a stateless actor, and an initial state, are named each', () =>
  watched(30, async (system, log) => {
    const { opened, open } = gate();
    class Order {}
    const pool = spawnStateless<unknown>(system, () => opened, { name: 'pool', kind: 'pool', concurrency: 3 });
    for (const message of [new Order(), 7, { type: 'mine' }]) dispatch(pool, message);
    spawn(system, () => undefined, { name: 'waking', kind: 'waking', initialStateFunc: () => opened });
    await until(() => linesOf(log, LONG).length === 4, 'all four are named');
    assert.deepEqual(
      linesOf(log, LONG)
        .map(({ kind, message }) => `${kind} ${message}`)
        .sort(),
      ['pool Order', 'pool mine', 'pool number', 'waking initial state'],
    );
    open();
    await until(() => linesOf(log, ENDED).length === 4, 'all four have ended');
  }));

test('a handler that was abandoned has ended', () =>
  watched(30, async (system, log) => {
    const stuck = spawn<undefined, string>(system, () => new Promise<undefined>(() => {}), {
      name: 'stuck',
      shutdownMs: 10,
    });
    dispatch(stuck, 'never');
    await until(() => linesOf(log, LONG).length === 1, 'it is named');
    stop(stuck);
    await stopped(stuck);
    await until(() => linesOf(log, ENDED).length === 1, 'its end is told');
    assert.equal(linesOf(log, ENDED)[0]?.actor, 'test://stuck');
  }));

test('a stuck handler is found among actors that come and go', () =>
  watched(20, async (system, log) => {
    for (let i = 0; i < 2000; i++) spawn(system, () => undefined);
    const parent = spawn(system, () => undefined, { name: 'deep' });
    const stuck = spawn<undefined, string>(parent, () => new Promise<undefined>(() => {}), {
      name: 'stuck',
      shutdownMs: 0,
    });
    for (let i = 0; i < 2000; i++) spawn(system, () => undefined);
    dispatch(stuck, 'never');
    await until(() => {
      for (let i = 0; i < 300; i++) stop(spawn(system, () => undefined));
      return linesOf(log, LONG).length === 1;
    }, 'it is named');
  }));

test('of many that are stuck at once some are named, and the others counted', () =>
  watched(20, async (system, log) => {
    for (let i = 0; i < 150; i++) {
      dispatch(
        spawn<undefined, string>(system, () => new Promise<undefined>(() => {}), { shutdownMs: 0 }),
        'never',
      );
    }
    const text = 'more handlers than can be named run for long';
    await until(() => linesOf(log, text).length > 0, 'the others are counted');
    assert.equal(linesOf(log, LONG).length, 100);
    const [counted, ...more] = linesOf(log, text);
    const others = Number(counted?.handlers);
    // A look may come while some of them are not over their bound yet.
    assert.ok(others > 0 && others <= 50, `${others} others`);
    assert.deepEqual(more, []);
  }));

test('the tree shows what a busy actor handles, and since when', () =>
  watched(
    10_000,
    async (system) => {
      const { opened, open } = gate();
      const idle = spawn(system, () => undefined, { name: 'idle' });
      const busy = spawn<undefined, { type: string; what: string }>(system, () => opened.then(() => undefined), {
        name: 'busy',
      });
      const odd = spawn<undefined, object>(system, () => opened.then(() => undefined), { name: 'odd' });
      dispatch(busy, { type: 'call', what: 'createUser' });
      dispatch(odd, {
        get type() {
          throw new Error('not for you');
        },
      });
      await until(() => tree(system).children.every(({ name, handler }) => name === 'idle' || handler), 'both run');
      await until(() => (tree(system).children[1]?.handler?.ms ?? 0) >= 5, 'time goes on');
      const [first, second, third] = tree(system).children;
      assert.equal(first?.path, idle.path);
      assert.equal(first?.handler, undefined);
      assert.equal(second?.handler?.message, 'call createUser');
      assert.equal(third?.handler?.message, 'unknown');
      open();
      await until(() => tree(system).children.every(({ handler }) => handler === undefined), 'both have ended');
    },
    (message) =>
      typeof message === 'object' && message !== null && 'what' in message ? `call ${message.what}` : undefined,
  ));

test('a bound that is no time is refused', () => {
  for (const longHandlerMs of [0, -1, Number.NaN]) {
    assert.throws(() => start({ longHandlerMs }), { name: 'SpawnError', code: 'invalid' });
  }
});
