import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  dispatch,
  entities,
  query,
  type Ref,
  type SystemRef,
  spawn,
  start,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { TestSystem } from '../../supervision/testing/index.ts';
import { KeepingTracer } from '../support/supervision/tracer.ts';

interface Basket {
  readonly fruit: string[];
  readonly replyTo?: Ref<string[]>;
}

async function frozenSystem(f: (system: SystemRef) => Promise<void>, tracer?: KeepingTracer): Promise<void> {
  const system = start(tracer === undefined ? { freezeMessages: true } : { freezeMessages: true, tracer });
  try {
    await f(system);
  } finally {
    stop(system);
    await stopped(system);
  }
}

for (const tracer of [undefined, new KeepingTracer()]) {
  const where = tracer === undefined ? '' : ', with a tracer';

  test(`where messages are frozen, a sender that changes one it has sent fails${where}`, () =>
    frozenSystem(async (system) => {
      const shop = spawn<number, Basket>(system, (count, { fruit }) => count + fruit.length, { initialState: 0 });
      const basket: Basket = { fruit: ['pear'] };
      dispatch(shop, basket);
      assert.throws(() => basket.fruit.push('plum'), TypeError);
    }, tracer));

  test(`where messages are frozen, a handler that changes its message crashes${where}`, () =>
    frozenSystem(async (system) => {
      const shop = spawn<null, Basket>(system, (state, { fruit }) => {
        fruit.push('plum');
        return state;
      });
      dispatch(shop, { fruit: ['pear'] });
      const reason = await stopped(shop);
      assert.ok(reason.kind === 'crashed' && reason.error instanceof TypeError);
    }, tracer));

  test(`where messages are frozen, an entity cannot change what it has replied, nor can its asker${where}`, () =>
    frozenSystem(async (system) => {
      const shops = entities<Basket, string[]>(system, {
        kind: 'shop',
        sleepAfterMs: 1000,
        activate: () => ['pear'],
        handle: (state, { fruit, replyTo }) => {
          if (replyTo !== undefined) dispatch(replyTo, state);
          state.push(...fruit);
          return state;
        },
      });
      const ask = (fruit: string[]) => shops.ask('one', (replyTo: Ref<string[]>) => ({ fruit, replyTo }), 1000);
      const before = await ask([]);
      assert.deepEqual(before, ['pear']);
      assert.throws(() => before.push('plum'), TypeError);
      assert.deepEqual(await ask(['plum']), ['pear'], 'the reply was given before the crash');
      assert.deepEqual(before, ['pear']);
    }, tracer));
}

test('what has methods that change it is not frozen: refs, maps, bytes; a circle ends; no getter is called', () =>
  frozenSystem(async (system) => {
    interface Odd {
      readonly map: Map<string, number>;
      readonly bytes: Uint8Array;
      readonly replyTo: Ref<string>;
      readonly inner: { self?: unknown };
      readonly lazy: string;
    }
    const odd = spawn<null, Odd>(system, (state, { map, bytes, replyTo }) => {
      map.set('a', 1);
      bytes[0] = 1;
      dispatch(replyTo, 'done');
      return state;
    });
    const inner: { self?: unknown } = {};
    inner.self = inner;
    const [map, bytes] = [new Map<string, number>(), new Uint8Array(1)];
    const make = (replyTo: Ref<string>): Odd => ({
      map,
      bytes,
      replyTo,
      inner,
      get lazy(): string {
        throw new Error('a getter was called');
      },
    });
    assert.equal(await query(odd, make, 1000), 'done');
    assert.deepEqual([map.get('a'), bytes[0], Object.isFrozen(inner)], [1, 1, true]);
  }));

test('a promise as the reply is frozen with its value', () =>
  frozenSystem(async (system) => {
    const shop = spawn<null, Ref<string[]>>(system, (state, replyTo) => {
      const reply = Promise.resolve(['pear']);
      replyTo.deliver(reply);
      return state;
    });
    const given = await query(shop, (replyTo: Ref<string[]>) => replyTo, 1000);
    assert.throws(() => given.push('plum'), TypeError);
  }));

test('a system freezes no message unless it is told to; a system of a test does', async () => {
  const plain = start();
  const time = new TestSystem();
  const one: Basket = { fruit: [] };
  const two: Basket = { fruit: [] };
  dispatch(
    spawn<null, Basket>(plain, (state) => state),
    one,
  );
  dispatch(
    spawn<null, Basket>(time.ref, (state) => state),
    two,
  );
  assert.deepEqual([Object.isFrozen(one), Object.isFrozen(two)], [false, true]);
  await time.end();
  stop(plain);
  await stopped(plain);
});
