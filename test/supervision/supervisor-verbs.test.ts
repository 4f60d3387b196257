import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AnyRef,
  child,
  deleteChild,
  dispatch,
  restartChild,
  SpawnError,
  spawn,
  startChild,
  startSupervisor,
  stats,
  stop,
  stopped,
  terminateChild,
  whichChildren,
} from '../../supervision/index.ts';
import { TestSystem } from '../../supervision/testing/index.ts';
import { plan, Troupe } from '../support/supervision/supervised-children.ts';
import { gate, rejectsWith, until, withSystem } from '../support/supervision/system.ts';

const picture = (supervisor: AnyRef): string =>
  whichChildren(supervisor)
    .map(({ id, status }) => `${id} ${status}`)
    .join(', ');

test('a terminated child stays away until it is restarted, and its id is free once it is deleted', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const top = await startSupervisor(
      system,
      plan([troupe.spec('a'), troupe.spec('b')], { intensity: { max: 0, withinMs: 1000 } }),
    );
    await troupe.did('+a +b');
    const ref = child(top, 'a');
    assert.ok(ref !== undefined);
    await terminateChild(top, 'a');
    assert.deepEqual(await stopped(ref), { kind: 'stopped', detail: 'terminated' });
    await troupe.did('-a');
    assert.equal(picture(top), 'a ended, b running');
    await terminateChild(top, 'a');
    assert.equal(await restartChild(top, 'a'), child(top, 'a'));
    await troupe.did('+a');
    assert.equal(stats(system).kinds.member?.restarts, 1);
    await terminateChild(top, 'a');
    await deleteChild(top, 'a');
    assert.equal(picture(top), 'b running');
    await startChild(top, troupe.spec('a', { restart: 'temporary' }));
    assert.deepEqual(
      whichChildren(top).map(({ id, restart, ref: at }) => [id, restart, at === child(top, id)]),
      [
        ['b', 'permanent', true],
        ['a', 'temporary', true],
      ],
    );
    await terminateChild(top, 'a');
    assert.equal(picture(top), 'b running');
    await troupe.did('-a +a -a');
  }));

test('the id of a transient child that has finished is free again, or the child is restarted', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const top = await startSupervisor(system, plan([troupe.spec('a', { restart: 'transient' })]));
    troupe.tell('a', 'stop');
    await until(() => picture(top) === 'a ended', 'its end');
    await restartChild(top, 'a');
    troupe.tell('a', 'stop');
    await until(() => picture(top) === 'a ended', 'its end');
    await deleteChild(top, 'a');
    await startChild(top, troupe.spec('a'));
    await troupe.did('+a -a +a -a +a');
  }));

test('what cannot be done is refused: no such child, one that runs, one that is being restarted', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const backoff = { minMs: 600_000, maxMs: 600_000 };
    const top = await startSupervisor(system, plan([troupe.spec('a'), troupe.spec('b')], { backoff }));
    for (const verb of [terminateChild, deleteChild, restartChild] as const) {
      await assert.rejects(verb(top, 'nobody'), { name: 'SpawnError', code: 'not_found' });
    }
    for (const verb of [deleteChild, restartChild]) await assert.rejects(verb(top, 'a'), { code: 'running' });
    troupe.tell('a', 'crash');
    await until(() => picture(top) === 'a restarting, b running', 'a pause before the restart');
    for (const verb of [deleteChild, restartChild]) await assert.rejects(verb(top, 'a'), { code: 'restarting' });
    // The restart that waits is off.
    await terminateChild(top, 'a');
    assert.equal(picture(top), 'a ended, b running');
    await restartChild(top, 'a');
    await troupe.did('+a +b -a +a');
    stop(top);
    await stopped(top);
    await rejectsWith(terminateChild(top, 'a'), 'stopped');
    assert.throws(() => whichChildren(system), SpawnError);
  }));

test('a child that fails to restart stays ended; a terminated one comes back when the strategy restarts all', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    let isBad = false;
    const start = (parent: AnyRef): AnyRef => {
      if (isBad) throw new Error('bad start');
      return troupe.spawn(parent, 'a');
    };
    const top = await startSupervisor(
      system,
      plan([troupe.spec('a', { start }), troupe.spec('b')], { strategy: 'one-for-all' }),
    );
    await terminateChild(top, 'a');
    isBad = true;
    const error = await rejectsWith(restartChild(top, 'a'), 'crashed');
    assert.ok(error.cause instanceof Error);
    assert.equal(picture(top), 'a ended, b running');
    isBad = false;
    troupe.tell('b', 'crash');
    await until(() => picture(top) === 'a running, b running', 'the restart of all');
    await troupe.did('+a +b -a -b +a +b');
  }));

test('a child that does not stop is killed after its time when it is terminated', () =>
  withSystem(async (system) => {
    const begun = gate();
    const stuck = (parent: AnyRef): AnyRef => {
      const ref = spawn<undefined, string>(
        parent,
        () => {
          begun.open();
          return new Promise<undefined>(() => {});
        },
        { shutdownMs: 600_000 },
      );
      dispatch(ref, 'hang');
      return ref;
    };
    const top = await startSupervisor(system, plan([new Troupe().spec('a', { shutdownMs: 5, start: stuck })]));
    const ref = child(top, 'a');
    assert.ok(ref !== undefined);
    await begun.opened;
    await terminateChild(top, 'a');
    assert.equal((await stopped(ref)).kind, 'killed');
    assert.equal(picture(top), 'a ended');
  }));

test('no child of a supervisor that has ended is said to run or to be restarted', async () => {
  const time = new TestSystem();
  const troupe = new Troupe();
  const limits = { intensity: { max: 1, withinMs: 1000 }, backoff: { minMs: 60_000, maxMs: 60_000 } };
  const top = await time.until(startSupervisor(time.ref, plan([troupe.spec('a'), troupe.spec('b')], limits)));
  for (const id of ['a', 'b']) {
    const ref = child(top, id);
    assert.ok(ref !== undefined);
    stop(ref);
    await time.settle();
    if (id === 'a') assert.equal(picture(top), 'a restarting, b running');
  }
  assert.equal((await stopped(top)).kind, 'intensity');
  assert.equal(picture(top), 'a ended, b ended');
  await time.end();
});
