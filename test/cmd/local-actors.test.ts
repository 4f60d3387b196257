import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { actOnLocalActor, listLocalActors, showLocalActor } from '../../cmd/node/local-actors.ts';
import { dispatch, entities, inspect, type SystemRef, spawn, start, stop, stopped } from '../../supervision/index.ts';
import { until } from '../support/until.ts';

const NODE = 'here:1';

function systemOf(t: TestContext): SystemRef {
  const system = start({ name: 'test' });
  t.after(async () => {
    stop(system);
    await stopped(system);
  });
  return system;
}

test('of a tree that is too large fewer children of each actor are listed, and the others counted', (t) => {
  const system = systemOf(t);
  for (let i = 0; i < 20; i++) {
    const parent = spawn(system, () => undefined, { name: `parent${i}` });
    for (let child = 0; child < 200; child++) spawn(parent, () => undefined);
  }
  const limits = { maxChildren: 100, maxActors: 5000 };
  const all = listLocalActors(system, limits);
  assert.equal(all.length, 1 + 20 + 20 * 100);
  assert.equal(all.find(({ path }) => path === 'test://parent7')?.omitted, 100);
  const fewer = listLocalActors(system, { ...limits, maxActors: 500 });
  assert.equal(fewer.length, 1 + 11 + 11 * 11);
  assert.deepEqual([fewer[0]?.path, fewer[0]?.omitted], ['test://', 9]);
  const least = listLocalActors(system, { ...limits, maxActors: 0 });
  assert.deepEqual(
    least.map(({ path, omitted }) => [path, omitted]),
    [['test://', 20]],
  );
});

test('what others depend on is guarded: the top, what has children, supervisors; a leaf and an entity are not', async (t) => {
  const system = systemOf(t);
  const top = spawn(system, () => undefined, { name: 'top' });
  const parent = spawn(top, () => undefined, { name: 'parent' });
  spawn(parent, () => undefined, { name: 'leaf' });
  spawn(parent, () => undefined, { name: 'host', kind: 'entities' });
  const things = entities<string, number>(parent, {
    kind: 'things',
    sleepAfterMs: 60_000,
    activate: (_id, ctx) => {
      spawn(ctx.self, () => undefined);
      return 1;
    },
    handle: (state) => state,
  });
  things.tell('one', 'wake');
  await until(() => showLocalActor(system, 'top/parent/things/one', NODE)?.children === 1, { what: 'it is awake' });
  const guarded = ['', 'top', 'top/parent', 'top/parent/leaf', 'top/parent/host', 'top/parent/things/one'].filter(
    (path) => showLocalActor(system, path, NODE)?.is_guarded,
  );
  assert.deepEqual(guarded, ['', 'top', 'top/parent', 'top/parent/host']);
  assert.equal(showLocalActor(system, 'top/none', NODE), undefined);
});

test('a verb tells whether it is done, that it takes longer, or why not', async (t) => {
  const system = systemOf(t);
  const idle = spawn(system, () => undefined, { name: 'idle' });
  const stuck = spawn<undefined, string>(system, () => new Promise<undefined>(() => {}), {
    name: 'stuck',
    shutdownMs: 1500,
  });
  dispatch(stuck, 'never');
  await until(() => inspect(stuck).handlers.length === 1, { what: 'it works' });
  assert.deepEqual(await actOnLocalActor(system, 'idle', 'stop'), { isDone: true });
  assert.deepEqual(await stopped(idle), { kind: 'stopped', detail: 'an operator stopped it' });
  assert.equal(await actOnLocalActor(system, 'idle', 'stop'), undefined);
  assert.deepEqual(await actOnLocalActor(system, 'stuck', 'stop'), { isDone: false });
  await stopped(stuck);
  const fragile = spawn(system, () => undefined, { name: 'fragile', intensity: { max: 1, withinMs: 60_000 } });
  assert.deepEqual(await actOnLocalActor(system, fragile.path, 'reset'), { isDone: true });
  await until(() => inspect(fragile).status === 'idle', { what: 'it is reset' });
  assert.deepEqual(await actOnLocalActor(system, fragile.path, 'reset'), {
    problem: 'test://fragile was reset too often lately, or is ending.',
  });
});
