import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AnyRef,
  type ChildSpec,
  child,
  dispatch,
  query,
  type Ref,
  SpawnError,
  type Strategy,
  spawn,
  startChild,
  startSupervisor,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { plan, Troupe } from '../support/supervision/supervised-children.ts';
import { type Asking, gate, rejectsWith, until, withSystem } from '../support/supervision/system.ts';

test('children start in order, each when the one before is up, and stop in reverse, each when the one before has ended', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const slow = (id: string): ChildSpec =>
      troupe.spec(id, {
        start: async (parent) => {
          troupe.log.push(`~${id}`);
          await new Promise((resolve) => setImmediate(resolve));
          return troupe.spawn(parent, id);
        },
      });
    const top = await startSupervisor(system, plan([slow('a'), slow('b'), slow('c')]));
    await troupe.did('~a +a ~b +b ~c +c');
    assert.equal(child(top, 'b')?.path, 'test://top/b');
    assert.equal(child(top, 'x'), undefined);
    stop(top);
    await stopped(top);
    await troupe.did('-c -b -a');
  }));

for (const [strategy, events] of [
  ['one-for-one', '-b +b'],
  ['one-for-all', '-b -c -a +a +b +c'],
  ['rest-for-one', '-b -c +b +c'],
] as const satisfies readonly (readonly [Strategy, string])[]) {
  test(`${strategy} restarts what it should, in order`, () =>
    withSystem(async (system) => {
      const troupe = new Troupe();
      await startSupervisor(
        system,
        plan(
          ['a', 'b', 'c'].map((id) => troupe.spec(id)),
          { strategy },
        ),
      );
      await troupe.did('+a +b +c');
      troupe.tell('b', 'crash');
      await troupe.did(events);
      troupe.tell('b', 'stop');
      await troupe.did(events);
      assert.equal(stats(system).kinds.member?.restarts, events.split('+').length * 2 - 2);
    }));
}

test('a transient child comes back after a failure only, a temporary one never', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const top = await startSupervisor(
      system,
      plan([
        troupe.spec('transient', { restart: 'transient' }),
        troupe.spec('temporary', { restart: 'temporary' }),
        troupe.spec('permanent'),
      ]),
    );
    await troupe.did('+transient +temporary +permanent');
    troupe.tell('transient', 'crash');
    await troupe.did('-transient +transient');
    troupe.tell('transient', 'stop');
    troupe.tell('temporary', 'crash');
    await troupe.did('-transient -temporary');
    // Handled after the two above, so they would have been restarted by now.
    troupe.tell('permanent', 'stop');
    await troupe.did('-permanent +permanent');
    assert.equal(child(top, 'transient'), undefined);
    // A temporary child is forgotten: its id is free.
    await startChild(top, troupe.spec('temporary'));
    await troupe.did('+temporary');
  }));

test('one-for-all ends a temporary sibling and does not bring it back', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const specs = [troupe.spec('a'), troupe.spec('t', { restart: 'temporary' }), troupe.spec('b')];
    await startSupervisor(system, plan(specs, { strategy: 'one-for-all' }));
    await troupe.did('+a +t +b');
    troupe.tell('a', 'crash');
    await troupe.did('-a -b -t +a +b');
  }));

test('a child that escalates has failed', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    await startSupervisor(system, plan([troupe.spec('a', { restart: 'transient' })]));
    troupe.tell('a', 'escalate');
    await troupe.did('+a -a +a');
  }));

test('past the intensity the supervisor stops with that reason, and the one above restarts it', () =>
  withSystem(async (system, { lines }) => {
    const troupe = new Troupe();
    const inner = (parent: AnyRef) =>
      startSupervisor(
        parent,
        plan([troupe.spec('a'), troupe.spec('b')], { name: 'inner', intensity: { max: 1, withinMs: 60_000 } }),
      );
    const top = await startSupervisor(
      system,
      plan([{ id: 'inner', restart: 'transient', shutdownMs: 1000, start: inner }]),
    );
    await troupe.did('+a +b');
    const first = child(top, 'inner');
    assert.ok(first !== undefined);
    troupe.tell('a', 'crash');
    await troupe.did('-a +a');
    troupe.tell('a', 'crash');
    await troupe.did('-a -b +a +b');
    const reason = await stopped(first);
    assert.equal(reason.kind, 'intensity');
    assert.ok('error' in reason && reason.error instanceof Error && reason.error.message === 'crash');
    await until(() => child(top, 'inner') !== undefined, 'another inner supervisor');
    assert.notEqual(child(top, 'inner'), first);
    assert.equal(lines.filter(({ message }) => message.startsWith('too many restarts')).length, 1);
  }));

test('a first start that fails stops what was started, in reverse, and rejects with the cause', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const bad = troupe.spec('bad', { start: () => Promise.reject(new Error('no port')) });
    const error = await rejectsWith(
      startSupervisor(system, plan([troupe.spec('a'), troupe.spec('b'), bad, troupe.spec('c')])),
      'crashed',
    );
    assert.ok(error.cause instanceof Error && error.cause.message === 'no port');
    await troupe.did('+a +b -b -a');
    await rejectsWith(
      startSupervisor(system, plan([troupe.spec('x'), troupe.spec('x')], { name: 'twins' })),
      'crashed',
    );
  }));

test('a restart that fails is tried again, and counts', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    let starts = 0;
    const flaky = troupe.spec('flaky', {
      start: (parent) => {
        starts++;
        if (starts === 2 || starts === 3) throw new Error('not yet');
        return troupe.spawn(parent, 'flaky');
      },
    });
    const top = await startSupervisor(system, plan([flaky, troupe.spec('b')], { strategy: 'rest-for-one' }));
    await troupe.did('+flaky +b');
    troupe.tell('flaky', 'crash');
    await troupe.did('-flaky -b +flaky +b');
    assert.equal(starts, 4);
    starts = 1;
    const limited = await startSupervisor(
      system,
      plan(
        [
          {
            ...flaky,
            id: 'never',
            start: (parent) => {
              if (starts++ > 1) throw new Error('never again');
              return troupe.spawn(parent, 'never');
            },
          },
        ],
        { name: 'limited' },
      ),
    );
    troupe.tell('never', 'crash');
    assert.equal((await stopped(limited)).kind, 'intensity');
    assert.equal(starts, 7);
    stop(top);
  }));

test('with a backoff the restart waits, the child is absent meanwhile, and stopping does not wait', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const backoff = { minMs: 600_000, maxMs: 600_000 };
    const top = await startSupervisor(system, plan([troupe.spec('a'), troupe.spec('b')], { backoff }));
    troupe.tell('a', 'crash');
    await troupe.did('+a +b -a');
    await until(() => child(top, 'a') === undefined, 'it is gone');
    assert.ok(child(top, 'b') !== undefined);
    stop(top);
    await stopped(top);
    await troupe.did('-b');
  }));

test('with a short backoff the child comes back', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    await startSupervisor(system, plan([troupe.spec('a')], { backoff: { minMs: 2, maxMs: 4 } }));
    for (let i = 0; i < 3; i++) {
      troupe.tell('a', 'crash');
      await troupe.did(i === 0 ? '+a -a +a' : '-a +a');
    }
  }));

test('a child that does not stop within its deadline is killed with all below it', () =>
  withSystem(async (system, { lines }) => {
    const reached: AnyRef[] = [];
    const stubborn: ChildSpec = {
      id: 'stubborn',
      restart: 'permanent',
      shutdownMs: 5,
      start: (parent) => {
        const ref = spawn<undefined, string>(parent, () => new Promise<undefined>(() => {}), { shutdownMs: 600_000 });
        reached.push(spawn<undefined, string>(ref, () => undefined));
        dispatch(ref, 'hang');
        return ref;
      },
    };
    const troupe = new Troupe();
    const top = await startSupervisor(system, plan([troupe.spec('a'), stubborn]));
    const ref = child(top, 'stubborn');
    assert.ok(ref !== undefined);
    await until(() => (stats(system).kinds.actor?.handled ?? 0) === 1, 'it hangs');
    stop(top);
    await stopped(top);
    assert.deepEqual(await stopped(ref), { kind: 'killed' });
    assert.equal((await stopped(reached[0] ?? ref)).kind, 'killed');
    assert.ok(lines.some(({ message }) => message.startsWith('killed')));
    await troupe.did('+a -a');
  }));

test('children can be added later; they are last in order', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const top = await startSupervisor(system, plan([troupe.spec('a')]));
    const added = await startChild(top, troupe.spec('b'));
    assert.equal(child(top, 'b'), added);
    await assert.rejects(
      startChild(top, troupe.spec('b')),
      (error) => error instanceof SpawnError && error.code === 'name_taken',
    );
    const broken = troupe.spec('c', { start: () => Promise.reject(new Error('broken')) });
    const error = await rejectsWith(startChild(top, broken), 'crashed');
    assert.ok(error.cause instanceof Error);
    await startChild(top, troupe.spec('c'));
    stop(top);
    await rejectsWith(startChild(top, troupe.spec('d')), 'stopped');
    await stopped(top);
    await troupe.did('+a +b +c -c -b -a');
    assert.throws(() => child(system, 'a'), SpawnError);
  }));

test('a supervisor can be stopped while a child takes forever to start', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const entered = gate();
    const never = troupe.spec('never', {
      start: () => {
        entered.open();
        return new Promise<AnyRef>(() => {});
      },
    });
    const starting = startSupervisor(system, plan([troupe.spec('a'), never]));
    await entered.opened;
    stop(system);
    await rejectsWith(starting, 'stopped');
    await troupe.did('+a -a');
    await stopped(system);
  }));

test('the ref of a child is the present one after each restart', () =>
  withSystem(async (system) => {
    let lives = 0;
    let now: Ref<Asking<number> | 'crash'> | undefined;
    const spec: ChildSpec = {
      id: 'a',
      restart: 'permanent',
      shutdownMs: 100,
      start: (parent) => {
        const life = ++lives;
        now = spawn<undefined, Asking<number> | 'crash'>(parent, (_, msg) => {
          if (msg === 'crash') throw new Error('crash');
          dispatch(msg.replyTo, life);
          return undefined;
        });
        return now;
      },
    };
    const top = await startSupervisor(system, plan([spec]));
    const first = child(top, 'a');
    assert.ok(now !== undefined);
    dispatch(now, 'crash');
    await until(() => lives === 2 && child(top, 'a') !== undefined, 'the second life');
    assert.notEqual(child(top, 'a'), first);
    assert.equal(child(top, 'a'), now);
    assert.equal(await query(now, (replyTo: Ref<number>) => ({ replyTo }), 1000), 2);
  }));

test('rest-for-one keeps the order when an earlier child fails in the pause before a restart', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const specs = ['a', 'b', 'c'].map((id) => troupe.spec(id));
    await startSupervisor(system, plan(specs, { strategy: 'rest-for-one', backoff: { minMs: 20, maxMs: 400 } }));
    await troupe.did('+a +b +c');
    troupe.tell('b', 'crash');
    await troupe.did('-b -c');
    troupe.tell('a', 'crash');
    await troupe.did('-a +a +b +c');
  }));

test('a supervisor that is reset by the actor above stops its children in order and starts those of its spec', () =>
  withSystem(async (system) => {
    const troupe = new Troupe();
    const above = spawn<undefined, string>(system, () => undefined, {
      onCrash: (_msg, _error, ctx) => ctx.resetAllChildren,
    });
    const top = await startSupervisor(above, plan([troupe.spec('a'), troupe.spec('b')]));
    await startChild(top, troupe.spec('added'));
    await troupe.did('+a +b +added');
    const crasher = spawn<undefined, string>(
      above,
      () => {
        throw new Error('x');
      },
      { onCrash: (_msg, _error, ctx) => ctx.escalate },
    );
    dispatch(crasher, 'x');
    await troupe.did('-added -b -a +a +b');
    await until(() => child(top, 'b') !== undefined, 'it is up');
    assert.equal(child(top, 'added'), undefined);
    stop(top);
    await stopped(top);
    await troupe.did('-b -a');
  }));
