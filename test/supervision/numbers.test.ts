import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dispatch, entities, spawn, startSupervisor, stats, stop, stopped, tree } from '../../supervision/index.ts';
import { timersDue, until, withSystem } from '../support/supervision/system.ts';

test('numbers are kept by kind of actor', () =>
  withSystem(async (system) => {
    const adder = spawn<number, number>(
      system,
      (sum, n) => {
        if (n < 0) throw new Error('negative');
        return sum + n;
      },
      { kind: 'adder', initialState: 0, onCrash: (_msg, _error, ctx) => ctx.reset },
    );
    for (const n of [1, 2, -1, 3]) dispatch(adder, n);
    await until(() => stats(system).kinds.adder?.handled === 4, 'all messages');
    assert.deepEqual(stats(system), {
      kinds: {
        actor: {
          alive: 0,
          depth: 0,
          oldestMs: 0,
          handled: 0,
          failed: 0,
          restarts: 0,
          dropped: 0,
          expired: 0,
          cancelled: 0,
        },
        adder: {
          alive: 1,
          depth: 0,
          oldestMs: 0,
          handled: 4,
          failed: 1,
          restarts: 1,
          dropped: 0,
          expired: 0,
          cancelled: 0,
        },
      },
      deadLetters: 0,
    });
    assert.equal(tree(system).children[0]?.restarts, 1);
    stop(adder);
    await stopped(adder);
    assert.equal(stats(system).kinds.adder?.alive, 0);
  }));

test('a handler that never ends is seen by the age of its message, and so is what waits behind it', () =>
  withSystem(async (system) => {
    const stuck = spawn<undefined, string>(system, () => new Promise<undefined>(() => {}), {
      kind: 'stuck',
      shutdownMs: 1,
    });
    dispatch(stuck, 'first');
    const age = (): number => stats(system).kinds.stuck?.oldestMs ?? 0;
    await until(() => age() >= 5, 'the age of the message in the handler');
    dispatch(stuck, 'second');
    const before = age();
    await until(() => age() > before, 'an age that grows');
    assert.equal(stats(system).kinds.stuck?.depth, 1);
    assert.equal(tree(system).children[0]?.status, 'busy');
  }));

test('the age of a waiting message counts from its own arrival, not from the first of a busy time', () =>
  withSystem(async (system) => {
    const held = spawn<undefined, string>(system, () => undefined, {
      kind: 'held',
      shutdownMs: 1,
      initialStateFunc: () => new Promise<undefined>(() => {}),
    });
    await timersDue(system, 20);
    dispatch(held, 'now');
    const [node] = tree(system).children;
    assert.equal(node?.status, 'held');
    assert.equal(node?.depth, 1);
  }));

test('the tree is JSON, with what each actor is and does, and bounded', () =>
  withSystem(async (system) => {
    await startSupervisor(system, {
      name: 'service',
      strategy: 'one-for-one',
      intensity: { max: 1, withinMs: 1000 },
      children: [
        {
          id: 'users',
          restart: 'permanent',
          shutdownMs: 100,
          start: (parent) =>
            entities<string, string>(parent, {
              kind: 'auth/user',
              sleepAfterMs: 1000,
              activate: () => 'state',
              handle: (state) => state,
            }).ref,
        },
      ],
    });
    const many = spawn(system, () => undefined, { name: 'many', kind: 'crowd' });
    for (let i = 0; i < 5; i++) spawn(many, () => undefined, { name: `c${i}` });
    const picture = tree(system, { maxChildren: 3 });
    assert.deepEqual(JSON.parse(JSON.stringify(picture)), picture);
    const flat = (node: typeof picture): string[] => [
      `${node.path} ${node.kind} ${node.status}`,
      ...node.children.flatMap(flat),
    ];
    assert.deepEqual(flat(picture), [
      'test:// system idle',
      'test://service supervisor idle',
      'test://service/auth-user entities idle',
      'test://many crowd idle',
      'test://many/c0 actor idle',
      'test://many/c1 actor idle',
      'test://many/c2 actor idle',
    ]);
    assert.equal(picture.children[1]?.omitted, 2);
  }));
