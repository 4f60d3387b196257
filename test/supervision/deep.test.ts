/** Trees that are deeper than the stack of the process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AnyRef,
  dispatch,
  type Ref,
  type SpawnOptions,
  type StopReason,
  type SystemRef,
  spawn,
  startSupervisor,
  stats,
  stop,
  stopped,
  type TreeNode,
  tree,
} from '../../supervision/index.ts';
import { until, withSystem } from '../support/supervision/system.ts';

const LEVELS = 100_000;

function handle(state: number, msg: string): number {
  if (msg === 'crash') throw new Error('deep');
  return state + 1;
}

/** Actors of which each is the child of the one before, the first under `parent`. */
function chain(
  parent: AnyRef | SystemRef,
  levels: number,
  options: (level: number) => SpawnOptions<number, string>,
): Ref<string>[] {
  const refs: Ref<string>[] = [];
  for (let level = 0; level < levels; level++) {
    refs.push(spawn(refs[level - 1] ?? parent, handle, { initialState: 0, ...options(level) }));
  }
  return refs;
}

const at = (refs: readonly Ref<string>[], level: number): Ref<string> => {
  const ref = refs.at(level);
  assert.ok(ref);
  return ref;
};
const alive = (system: SystemRef): number | undefined => stats(system).kinds.actor?.alive;

/** Whether the levels ended one after the other, the deepest first. */
function assertUpwards(ends: readonly number[], levels: number): void {
  assert.equal(ends.length, levels);
  assert.ok(ends.every((level, i) => level === levels - 1 - i));
}

test('a deep tree is stopped, its deepest actor first', () =>
  withSystem(async (system) => {
    const ends: number[] = [];
    const refs = chain(system, LEVELS, (level) => ({
      afterStop: () => {
        ends.push(level);
      },
    }));
    stop(at(refs, 0));
    assert.equal(alive(system), 0);
    assert.deepEqual(await stopped(at(refs, -1)), { kind: 'parent' });
    assertUpwards(ends, LEVELS);
  }));

test('a deep tree whose deepest actor takes its time is stopped after it, and so is a system', () =>
  withSystem(async (system) => {
    const ends: number[] = [];
    const refs = chain(system, LEVELS, (level) => ({
      afterStop: () => {
        ends.push(level);
        return level === LEVELS - 1 ? new Promise((resolve) => setImmediate(resolve)) : undefined;
      },
    }));
    stop(system);
    assert.equal(alive(system), LEVELS);
    assert.deepEqual(await stopped(system), { kind: 'stopped' });
    assert.deepEqual(await stopped(at(refs, 0)), { kind: 'parent' });
    assertUpwards(ends, LEVELS);
  }));

test('a deep tree with twigs is stopped in reverse order of spawning, children before parents', () =>
  withSystem(async (system) => {
    const WIDE = 20_000;
    const ends: string[] = [];
    const named = (name: string): SpawnOptions<number, string> => ({
      afterStop: () => {
        ends.push(name);
      },
    });
    const trunks: Ref<string>[] = [];
    const before: string[] = [];
    const after: string[] = [];
    for (let level = 0; level < WIDE; level++) {
      const trunk: Ref<string> = spawn(trunks[level - 1] ?? system, handle, named(`${level}`));
      spawn(trunk, handle, named(`${level} older`));
      before.push(`${level}`, `${level} older`);
      trunks.push(trunk);
    }
    for (const [level, trunk] of trunks.slice(0, -1).entries()) {
      spawn(trunk, handle, named(`${level} younger`));
      after.unshift(`${level} younger`);
    }
    stop(system);
    await stopped(system);
    // The reverse of parents before children, in order of spawning.
    assert.deepEqual(ends, [...before, ...after].reverse());
  }));

test('an actor with a deep tree below it is reset', () =>
  withSystem(async (system) => {
    let lives = 0;
    const top = spawn<number, string>(system, handle, {
      initialStateFunc: () => ++lives,
      onCrash: (_msg, _error, ctx) => ctx.reset,
    });
    const refs = chain(top, LEVELS, () => ({}));
    dispatch(top, 'crash');
    await until(() => lives === 2, 'the second life');
    assert.equal(alive(system), 1);
    assert.deepEqual(await stopped(at(refs, -1)), { kind: 'parent' });
  }));

test('a crash is escalated from the depth to the top, which resets or stops the child that it came from', () =>
  withSystem(async (system) => {
    for (const decision of ['resetChild', 'stopChild'] as const) {
      const top = spawn<number, string>(system, handle, {
        onCrash: (_msg, _error, ctx, child) => ctx[child === undefined ? 'stop' : decision],
      });
      const refs = chain(top, LEVELS, () => ({ onCrash: (_msg, _error, ctx) => ctx.escalate }));
      dispatch(at(refs, -1), 'crash');
      await until(() => alive(system) === (decision === 'resetChild' ? 2 : 1), decision);
      stop(top);
      await stopped(top);
    }
  }));

test('intensities that are passed one after the other hand a crash up to the top', () =>
  withSystem(async (system) => {
    // Each level makes an error that holds the whole path.
    const levels = 1200;
    const refs = chain(system, levels, () => ({
      intensity: { max: 0, withinMs: 1000 },
      onCrash: (_msg, _error, ctx) => ctx.reset,
    }));
    let reason: StopReason | undefined;
    void stopped(at(refs, 0)).then((given) => {
      reason = given;
    });
    dispatch(at(refs, -1), 'crash');
    await until(() => reason !== undefined, 'the end of the top', 60_000);
    assert.equal(reason?.kind, 'intensity');
    assert.equal(alive(system), 0);
  }));

test('what a supervisor kills may be deep', () =>
  withSystem(async (system) => {
    let deepest: Ref<string> | undefined;
    const supervisor = await startSupervisor(system, {
      name: 'service',
      strategy: 'one-for-one',
      intensity: { max: 1, withinMs: 1000 },
      children: [
        {
          id: 'deep',
          restart: 'temporary',
          shutdownMs: 1,
          start: (parent) => {
            const refs = chain(parent, LEVELS, () => ({}));
            deepest = refs.at(-1);
            spawn(at(refs, -1), () => undefined, { afterStop: () => new Promise(() => {}) });
            return at(refs, 0);
          },
        },
      ],
    });
    stop(supervisor);
    await stopped(supervisor);
    assert.equal(alive(system), 0);
    assert.ok(deepest);
    assert.deepEqual(await stopped(deepest), { kind: 'killed' });
  }));

test('the picture of a deep tree ends at a depth that is JSON, or at any other that is asked for', () =>
  withSystem(async (system) => {
    const refs = chain(system, LEVELS, () => ({}));
    const depth = (top: TreeNode): number => {
      let levels = 0;
      for (let node = top.children[0]; node !== undefined; node = node.children[0]) levels++;
      return levels;
    };
    const picture = tree(system);
    const text = JSON.stringify(picture);
    assert.deepEqual(JSON.parse(text), picture);
    const levels = depth(picture);
    assert.ok(levels < LEVELS);
    let last = picture;
    for (let node = last.children[0]; node !== undefined; node = node.children[0]) last = node;
    assert.equal(last.omitted, 1);
    assert.equal(last.path, at(refs, levels - 1).path);
    assert.equal(depth(tree(system, { maxDepth: 3 })), 3);
    assert.equal(depth(tree(system, { maxDepth: LEVELS + 1 })), LEVELS);
    assert.ok(at(refs, -1).path.length > LEVELS);
  }));
