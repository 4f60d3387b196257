import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  child,
  dispatch,
  entities,
  find,
  inspect,
  isEntity,
  query,
  type Ref,
  release,
  reset,
  type SystemRef,
  spawn,
  spawnStateless,
  startSupervisor,
  stop,
  stopped,
  tree,
} from '../../supervision/index.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { gate, until, withSystem } from '../support/supervision/system.ts';

failOnLeaks();

function found(system: SystemRef, path: string) {
  const ref = find(system, path);
  assert.ok(ref, `there is an actor at ${path}`);
  return ref;
}

test('an actor is found by its path, with and without the name of the system', () =>
  withSystem(async (system) => {
    const parent = spawn(system, () => undefined, { name: 'a b' });
    const named = spawn(parent, () => undefined, { name: 'c%' });
    const unnamed = spawn(parent, () => undefined);
    assert.equal(named.path, 'test://a%20b/c%25');
    for (const actor of [parent, named, unnamed, system]) {
      assert.equal(find(system, actor.path), actor);
      assert.equal(find(system, actor.path.slice('test://'.length)), actor);
    }
    for (const path of ['a b/d', 'a%20b/%', 'other://a%20b', 'a%20b/c%25/x'])
      assert.equal(find(system, path), undefined);
    stop(named);
    assert.equal(find(system, 'a%20b/c%25'), undefined);
  }));

test('what waits is told by type of message, with the age of the oldest and what is being handled', () =>
  withSystem(async (system) => {
    const { opened, open } = gate();
    const busy = spawn<undefined, unknown>(system, () => opened.then(() => undefined), { name: 'busy', kind: 'clerk' });
    for (const type of ['first', 'buy', 'sell', 'buy', 'buy']) dispatch(busy, { type, secret: 'hunter2' });
    dispatch(busy, 'text');
    await until(() => inspect(busy).oldestMs >= 5, 'time goes on');
    const { handlers, waiting, depth, kind, status, children, path } = inspect(busy);
    assert.deepEqual(
      { kind, status, children, path, depth },
      {
        ...{ kind: 'clerk', status: 'busy', children: 0, path: 'test://busy', depth: 5 },
      },
    );
    assert.deepEqual(
      handlers.map(({ message }) => message),
      ['first'],
    );
    assert.deepEqual(waiting, [
      { message: 'buy', count: 3 },
      { message: 'sell', count: 1 },
      { message: 'string', count: 1 },
    ]);
    assert.ok(!JSON.stringify(inspect(busy)).includes('hunter2'));
    open();
    await until(() => inspect(busy).depth === 0 && inspect(busy).status === 'idle', 'all is handled');
    assert.deepEqual([inspect(busy).handlers, inspect(busy).waiting], [[], []]);
  }));

test('what is told of one actor is bounded', () =>
  withSystem(async (system) => {
    const pool = spawnStateless<{ type: string }>(system, () => new Promise<void>(() => {}), { concurrency: 30 });
    for (let i = 0; i < 130; i++) dispatch(pool, { type: `${'long '.repeat(100)}${i}` });
    for (let i = 0; i < 30; i++) dispatch(pool, { type: `type ${i}` });
    const counted = () => inspect(pool).waiting.reduce((sum, { count }) => sum + count, 0);
    await until(() => inspect(pool).handlers.length > 0 && counted() === 130, 'it works on as many as it may');
    const { handlers, waiting } = inspect(pool);
    assert.equal(handlers.length, 20);
    assert.equal(handlers[0]?.message.length, 64);
    assert.equal(waiting.length, 21);
    assert.deepEqual(waiting.at(-1), { message: 'others', count: 11 });
    stop(pool);
  }));

test('the last crash is kept, without passwords, also when a supervisor has started the actor again', () =>
  withSystem(async (system) => {
    class DatabaseError extends Error {
      readonly code = 'unavailable';
      override readonly name = 'DatabaseError';
    }
    const supervisor = await startSupervisor(system, {
      name: 'service',
      strategy: 'one-for-one',
      intensity: { max: 10, withinMs: 1000 },
      children: [
        {
          id: 'part',
          restart: 'permanent',
          shutdownMs: 100,
          start: (parent) =>
            spawn<undefined, { type: string }>(
              parent,
              () => {
                throw new DatabaseError(`postgres://troupe:hunter2@db/x is down ${'!'.repeat(1000)}`);
              },
              { name: 'part' },
            ),
        },
      ],
    });
    const first = found(system, 'service/part');
    assert.equal(inspect(first).lastCrash, undefined);
    const before = Date.now();
    dispatch(first as Ref<unknown>, { type: 'write', password: 'hunter2' });
    await until(
      () => child(supervisor, 'part') !== undefined && child(supervisor, 'part') !== first,
      'it is restarted',
    );
    const crash = inspect(found(system, 'service/part')).lastCrash;
    assert.ok(crash && crash.at >= before && crash.at <= Date.now());
    assert.deepEqual([crash.message, crash.error, crash.code], ['write', 'DatabaseError', 'unavailable']);
    assert.match(crash.text, /^postgres:\/\/\*\*\*@db\/x is down !+$/);
    assert.equal(crash.text.length, 200);
  }));

test('a reset by hand makes the state anew, keeps what waits, and is bounded as any reset', () =>
  withSystem(async (system) => {
    let lives = 0;
    const actor = spawn<number, Ref<number>>(
      system,
      (state, replyTo) => {
        dispatch(replyTo, state);
        return state;
      },
      { name: 'actor', initialStateFunc: () => ++lives, intensity: { max: 1, withinMs: 60_000 } },
    );
    assert.equal(reset(found(system, 'actor')), true);
    assert.equal(await query(actor, (replyTo: Ref<number>) => replyTo, 1000), 2);
    assert.equal(reset(actor), false);
    stop(actor);
    await stopped(actor);
    assert.equal(reset(actor), false);
    assert.throws(() => reset(system), { name: 'SpawnError', code: 'invalid' });
  }));

test('an entity is let go of after what waits, and wakes from storage; other actors are refused', () =>
  withSystem(async (system) => {
    const { opened, open } = gate();
    const saved: number[] = [];
    const kind = {
      kind: 'test/thing',
      sleepAfterMs: 60_000,
      activate: () => 100,
      handle: async (state: number, replyTo: Ref<number> | 'wait') => {
        if (replyTo === 'wait') await opened;
        else dispatch(replyTo, state);
        return state + 1;
      },
      onSleep: (state: number) => {
        saved.push(state);
      },
    };
    const things = entities<Ref<number> | 'wait', number>(system, kind);
    things.tell('a/b', 'wait');
    const waiting = things.ask<number>('a/b', (replyTo) => replyTo, 1000);
    const thing = found(system, `${things.ref.path}/a%2Fb`);
    assert.ok(isEntity(thing));
    await until(() => inspect(thing).handlers[0]?.message === 'string', 'it works');
    release(thing);
    open();
    assert.equal(await waiting, 101);
    await stopped(thing);
    assert.deepEqual(saved, [102]);
    assert.equal(await things.ask<number>('a/b', (replyTo) => replyTo, 1000), 100);
    assert.throws(() => release(things.ref), { name: 'SpawnError', code: 'invalid' });
    assert.equal(tree(system).children.length, 1);
  }));
