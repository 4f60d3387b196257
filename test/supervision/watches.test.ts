import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyRef, dispatch, type StopReason, spawn, stats, stop, stopped, tree } from '../../supervision/index.ts';
import { until, withSystem } from '../support/supervision/system.ts';

const nothing = (): undefined => undefined;

test('a watcher gets a message with the reason when an actor ends, at once when it already has', () =>
  withSystem(async (system) => {
    const seen: [string, StopReason['kind']][] = [];
    const watcher = spawn<undefined, { watch: AnyRef; as: string } | { ended: string; reason: StopReason }>(
      system,
      (_, msg, ctx) => {
        if ('watch' in msg) ctx.watch(msg.watch, (reason) => ({ ended: msg.as, reason }));
        else seen.push([msg.ended, msg.reason.kind]);
        return undefined;
      },
    );
    const crasher = spawn<undefined, string>(system, () => {
      throw new Error('x');
    });
    const idler = spawn<undefined, string>(system, nothing, { shutdownAfter: 5 });
    const gone = spawn<undefined, string>(system, nothing);
    stop(gone);
    dispatch(watcher, { watch: crasher, as: 'crasher' });
    dispatch(watcher, { watch: idler, as: 'idler' });
    dispatch(watcher, { watch: gone, as: 'gone' });
    await until(() => seen.length >= 1, 'the one that had ended');
    assert.deepEqual(seen[0], ['gone', 'stopped']);
    dispatch(crasher, 'x');
    await until(() => seen.length === 3, 'all three');
    assert.deepEqual(seen.slice(1).sort(), [
      ['crasher', 'crashed'],
      ['idler', 'idle'],
    ]);
  }));

test('unwatch and a second watch replace what was said before; a callback that throws is contained', () =>
  withSystem(async (system, { lines }) => {
    const seen: string[] = [];
    const targets = [1, 2, 3].map(() => spawn<undefined, string>(system, nothing));
    const [unwatched, twice, bad] = targets;
    assert.ok(unwatched !== undefined && twice !== undefined && bad !== undefined);
    const watcher = spawn<undefined, string>(
      system,
      (_, msg) => {
        seen.push(msg);
        return undefined;
      },
      {
        initialStateFunc: (ctx) => {
          ctx.watch(unwatched, () => 'unwatched');
          ctx.unwatch(unwatched);
          ctx.watch(twice, () => 'first');
          ctx.watch(twice, () => 'second');
          ctx.watch(bad, () => {
            throw new Error('callback');
          });
          return undefined;
        },
      },
    );
    for (const target of targets) stop(target);
    dispatch(watcher, 'end');
    await until(() => seen.includes('end'), 'the last message');
    assert.deepEqual(seen, ['second', 'end']);
    assert.deepEqual(
      lines.map(({ message }) => message),
      ['a watch callback threw'],
    );
  }));

test('a watcher that has ended hears nothing and keeps nothing', () =>
  withSystem(async (system, { letters }) => {
    const target = spawn<undefined, string>(system, nothing);
    const watcher = spawn<undefined, string>(system, nothing, {
      initialStateFunc: (ctx) => {
        ctx.watch(target, () => 'ended');
        return undefined;
      },
    });
    stop(watcher);
    stop(target);
    await stopped(target);
    assert.deepEqual(letters, []);
  }));

test('who watches an actor still does after its reset; its name and its ref are the same', () =>
  withSystem(async (system) => {
    const seen: string[] = [];
    const target = spawn<undefined, string>(
      system,
      () => {
        throw new Error('x');
      },
      { name: 'target', kind: 'target', onCrash: (_msg, _error, ctx) => ctx.reset },
    );
    spawn<undefined, string>(
      system,
      (_, msg) => {
        seen.push(msg);
        return undefined;
      },
      {
        initialStateFunc: (ctx) => {
          ctx.watch(target, ({ kind }) => kind);
          return undefined;
        },
      },
    );
    for (let i = 1; i <= 2; i++) {
      dispatch(target, 'x');
      await until(() => stats(system).kinds.target?.restarts === i, 'a reset');
      await until(() => tree(system).children[0]?.status === 'idle', 'another life');
    }
    assert.throws(() => spawn(system, nothing, { name: 'target' }));
    stop(target);
    await until(() => seen.length > 0, 'the end');
    assert.deepEqual(seen, ['stopped']);
  }));
