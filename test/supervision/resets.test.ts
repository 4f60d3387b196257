import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ActorError,
  type AnyRef,
  type Context,
  type CrashContext,
  type Decision,
  type Decisions,
  dispatch,
  type EntityContext,
  entities,
  query,
  type Ref,
  type SystemRef,
  spawn,
  stats,
  stop,
  stopped,
  tree,
} from '../../supervision/index.ts';
import { type Asking, gate, rejectsWith, timersDue, until, withSystem } from '../support/supervision/system.ts';

const nothing = (): undefined => undefined;

/** An actor under `parent` crashes at once, and its policy resets its peers too. */
function resetAll(parent: AnyRef | SystemRef): void {
  const crasher = spawn<undefined, string>(
    parent,
    () => {
      throw new Error('x');
    },
    { onCrash: (_msg: unknown, _error: unknown, ctx: CrashContext<string>): Decision => ctx.resetAll },
  );
  dispatch(crasher, 'x');
}

test('an actor that is stopped while a reset waits for its handler ends after the grace, its ask with stopped', () =>
  withSystem(async (system) => {
    const begun = gate();
    const stuck = spawn<undefined, Asking<string>>(
      system,
      () => {
        begun.open();
        return new Promise<undefined>(() => {});
      },
      { kind: 'stuck', shutdownMs: 5 },
    );
    const ask = query(stuck, (replyTo: Ref<string>) => ({ replyTo }), 600_000);
    await begun.opened;
    resetAll(system);
    await until(() => stats(system).kinds.stuck?.restarts === 1, 'the reset began');
    stop(stuck);
    assert.deepEqual(await stopped(stuck), { kind: 'stopped' });
    await rejectsWith(ask, 'stopped');
  }));

test('the ask in a handler that a reset abandoned ends with crashed', () =>
  withSystem(async (system) => {
    const begun = gate();
    const stuck = spawn<undefined, Asking<string>>(
      system,
      () => {
        begun.open();
        return new Promise<undefined>(() => {});
      },
      { shutdownMs: 5 },
    );
    const ask = query(stuck, (replyTo: Ref<string>) => ({ replyTo }), 600_000);
    await begun.opened;
    resetAll(system);
    await rejectsWith(ask, 'crashed');
  }));

test('what a handler begins while its actor is being reset ends with its life', () =>
  withSystem(async (system) => {
    const begun = gate();
    const held = gate();
    const target = spawn<undefined, string>(system, nothing);
    const parent = spawn<undefined, string>(system, nothing);
    const got: string[] = [];
    let aborted: boolean | undefined;
    const ref = spawn<undefined, string>(
      parent,
      async (_, msg, ctx) => {
        got.push(msg);
        if (msg !== 'hold') return undefined;
        begun.open();
        await held.opened;
        aborted = ctx.signal.aborted;
        ctx.after(1, 'timer of the former life');
        ctx.watch(target, () => 'watch of the former life');
        spawn(ctx.self, nothing, { kind: 'child' });
        return undefined;
      },
      { kind: 'held' },
    );
    dispatch(ref, 'hold');
    await begun.opened;
    resetAll(parent);
    await until(() => stats(system).kinds.held?.restarts === 1, 'the reset began');
    held.open();
    await until(() => aborted !== undefined, 'the handler ended');
    assert.equal(aborted, true);
    stop(target);
    await stopped(target);
    dispatch(ref, 'hello');
    await until(() => got.includes('hello'), 'the next life');
    assert.deepEqual(got, ['hold', 'hello']);
    assert.equal(stats(system).kinds.child?.alive, 0);
  }));

test('nothing can be spawned under an actor between two lives, and it does not hold up the second', () =>
  withSystem(async (system) => {
    const closing = gate();
    const entered = gate();
    const ref = spawn<undefined, Asking<string> | 'crash'>(
      system,
      (_, msg) => {
        if (msg === 'crash') throw new Error('crash');
        dispatch(msg.replyTo, 'second life');
        return undefined;
      },
      { onCrash: (_msg, _error, ctx) => ctx.reset },
    );
    spawn(ref, nothing, {
      afterStop: () => {
        entered.open();
        return closing.opened;
      },
    });
    dispatch(ref, 'crash');
    await entered.opened;
    assert.throws(
      () => spawn(ref, nothing),
      (error) => error instanceof ActorError && error.code === 'stopped',
    );
    closing.open();
    assert.equal(await query(ref, (replyTo: Ref<string>) => ({ replyTo }), 1000), 'second life');
    spawn(ref, nothing);
  }));

test('a state that is never made does not hold up the reset that its own making brought about', () =>
  withSystem(async (system) => {
    let lives = 0;
    const ref = spawn<undefined, Asking<string>>(
      system,
      (_, { replyTo }) => {
        dispatch(replyTo, `life ${lives}`);
        return undefined;
      },
      {
        initialStateFunc: (ctx) => {
          if (++lives > 1) return undefined;
          spawn(ctx.self, nothing, {
            initialStateFunc: () => {
              throw new Error('no child');
            },
            onCrash: (_msg, _error, child) => child.escalate,
          });
          return new Promise<undefined>(() => {});
        },
        onCrash: (_msg, _error, ctx) => ctx.reset,
        shutdownMs: 5,
      },
    );
    assert.equal(await query(ref, (replyTo: Ref<string>) => ({ replyTo }), 1000), 'life 2');
  }));

test('a decision that comes after another one has reset its actor decides nothing, not even about a later crash', () =>
  withSystem(async (system) => {
    const decided = [gate<Decision>(), gate<Decision>()];
    let crashes = 0;
    let decisions: Decisions | undefined;
    const ref = spawn<undefined, Asking<string> | 'crash'>(
      system,
      (_, msg) => {
        if (msg === 'crash') throw new Error('crash');
        dispatch(msg.replyTo, 'alive');
        return undefined;
      },
      {
        kind: 'undecided',
        onCrash: (_msg, _error, ctx) => {
          decisions = ctx;
          return decided[crashes++]?.opened ?? ctx.stop;
        },
      },
    );
    dispatch(ref, 'crash');
    await until(() => crashes === 1, 'the first crash');
    resetAll(system);
    await until(() => stats(system).kinds.undecided?.restarts === 1, 'the reset');
    dispatch(ref, 'crash');
    await until(() => crashes === 2, 'the second crash');
    assert.ok(decisions !== undefined);
    const ask = query(ref, (replyTo: Ref<string>) => ({ replyTo }), 5000);
    decided[0]?.open(decisions.stop);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(stats(system).kinds.undecided?.depth, 1);
    decided[1]?.open(decisions.resume);
    assert.equal(await ask, 'alive');
  }));

test('past the intensity of a child that its parent resets, the one above the parent decides', () =>
  withSystem(async (system) => {
    const asked: (AnyRef | undefined)[] = [];
    const top = spawn<undefined, string>(system, nothing, {
      onCrash: (_msg, _error, ctx, child) => {
        asked.push(child);
        return ctx.stopChild;
      },
    });
    const parent = spawn<undefined, string>(top, nothing, { onCrash: (_msg, _error, ctx) => ctx.resetAllChildren });
    const child = spawn<undefined, string>(
      parent,
      () => {
        throw new Error('x');
      },
      { onCrash: (_msg, _error, ctx) => ctx.escalate, intensity: { max: 1, withinMs: 60_000 } },
    );
    dispatch(child, 'x');
    dispatch(child, 'x');
    assert.equal((await stopped(parent)).kind, 'intensity');
    assert.deepEqual(asked, [parent]);
  }));

test('when the state of the next life cannot be made, afterStop does not get that of the former', () =>
  withSystem(async (system) => {
    const ends: (string | undefined)[] = [];
    let lives = 0;
    const ref = spawn<string | undefined, string>(
      system,
      () => {
        throw new Error('x');
      },
      {
        initialStateFunc: () => {
          if (++lives > 1) throw new Error('no state');
          return 'former';
        },
        onCrash: (msg, _error, ctx) => (msg === undefined ? ctx.stop : ctx.reset),
        afterStop: (state) => {
          ends.push(state);
        },
      },
    );
    dispatch(ref, 'x');
    assert.equal((await stopped(ref)).kind, 'crashed');
    assert.deepEqual(ends, [undefined]);
  }));

test('a handler that a reset abandoned acts no more: the context of a life that is over is inert', () =>
  withSystem(async (system) => {
    const begun = gate<Context<string>>();
    const gone = spawn<undefined, string>(system, nothing);
    stop(gone);
    const seen: string[] = [];
    let lives = 0;
    const stuck = spawn<number, string>(
      system,
      (life, msg, ctx) => {
        if (msg !== 'hang') {
          seen.push(msg);
          return life;
        }
        begun.open(ctx);
        return new Promise<number>(() => {});
      },
      { kind: 'stuck', shutdownMs: 5, initialStateFunc: () => ++lives },
    );
    dispatch(stuck, 'hang');
    const former = await begun.opened;
    resetAll(system);
    await until(() => lives === 2, 'another life');
    former.after(0, 'timer')();
    former.after(0, 'timer');
    former.every(1, 'beat');
    former.watch(gone, () => 'ended');
    assert.equal(former.signal.aborted, true);
    assert.throws(() => spawn(former.self, nothing), { code: 'stopped' });
    dispatch(former.self, 'told');
    await until(() => seen.length > 0, 'a message, which whoever has the ref may send');
    await timersDue(system, 5);
    assert.deepEqual(seen, ['told']);
    assert.equal(tree(system).children.find(({ kind }) => kind === 'stuck')?.children.length, 0);
    stop(former.self);
    assert.equal((await stopped(former.self)).kind, 'stopped');
    assert.equal((await stopped(stuck)).kind, 'stopped');
  }));

test('an entity that was activated again is kept awake, or sent to sleep, by its present life only', () =>
  withSystem(async (system) => {
    const begun = gate<EntityContext<string>>();
    let lives = 0;
    const all = entities<string, number>(system, {
      kind: 'stuck',
      sleepAfterMs: 600_000,
      shutdownMs: 5,
      backoff: { minMs: 1, maxMs: 1 },
      activate: () => ++lives,
      handle: (life, msg, ctx) => {
        if (msg === 'throw') throw new Error('x');
        begun.open(ctx);
        return life;
      },
    });
    all.tell('one', 'look');
    const former = await begun.opened;
    all.tell('one', 'throw');
    await until(() => lives === 2, 'another life');
    former.sleep();
    await timersDue(system, 5);
    assert.equal(all.awake(), 1);
  }));
