/** What user code throws in places where nobody expects it: nothing escapes, nothing waits for ever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type CrashContext,
  type Decision,
  dispatch,
  entities,
  query,
  type Ref,
  type SpawnOptions,
  spawn,
  spawnStateless,
  stats,
  stop,
  stopped,
  tree,
} from '../../supervision/index.ts';
import { type Asking, rejectsWith, until, withSystem } from '../support/supervision/system.ts';

// An unhandled rejection or an uncaught exception fails the test that runs.

type Message = 'crash' | Asking<string>;

const nothing = (): undefined => undefined;

/** A value that cannot even be asked whether it is a promise. */
function hostile<T>(): T {
  const has = (): never => {
    throw new Error('hostile');
  };
  const value: T = new Proxy(Object.create(null), { has });
  return value;
}

function handle(_: undefined, msg: Message): undefined {
  if (msg === 'crash') throw new Error('crash');
  dispatch(msg.replyTo, 'here');
  return undefined;
}

const ask = (ref: Ref<Message>): Promise<string> => query(ref, (replyTo: Ref<string>) => ({ replyTo }), 60_000);

test('a policy whose decision throws when it is looked at stops its actor', () =>
  withSystem(async (system, { lines }) => {
    for (const make of [spawn, spawnStateless] as const) {
      const options = { onCrash: () => hostile<Decision>() };
      const ref: Ref<Message> =
        make === spawn
          ? spawn(system, handle, options)
          : spawnStateless(system, (msg: Message) => void handle(undefined, msg), options);
      dispatch(ref, 'crash');
      const answer = ask(ref).catch((error: unknown) => error);
      assert.equal((await stopped(ref)).kind, 'crashed');
      if (make === spawn) await rejectsWith(ask(ref), 'stopped');
      await answer;
    }
    assert.equal(lines.filter(({ message }) => message === 'onCrash failed: stopping').length, 2);
  }));

test('an afterStop whose result throws when it is looked at ends its actor', () =>
  withSystem(async (system, { lines }) => {
    const parent = spawn(system, nothing);
    const ref = spawn(parent, nothing, { afterStop: () => hostile() });
    stop(parent);
    assert.deepEqual(await stopped(ref), { kind: 'parent' });
    assert.deepEqual(await stopped(parent), { kind: 'stopped' });
    assert.deepEqual(
      lines.map(({ message }) => message),
      ['afterStop failed'],
    );
  }));

test('a state that throws when it is looked at could not be made: what waits hears of it', () =>
  withSystem(async (system) => {
    let lives = 0;
    const ref = spawn<undefined, Message>(system, handle, {
      initialStateFunc: () => (++lives === 2 ? hostile() : undefined),
      onCrash: (msg, _error, ctx) => (msg === undefined ? ctx.stop : ctx.reset),
    });
    dispatch(ref, 'crash');
    // Waits behind the crash, and so for the state of the second life.
    const answer = rejectsWith(ask(ref), 'crashed');
    assert.equal((await stopped(ref)).kind, 'crashed');
    await answer;
    assert.equal(stats(system).kinds.actor?.failed, 2);
    const first = spawn<undefined, Message>(system, handle, { initialStateFunc: () => hostile() });
    assert.equal((await stopped(first)).kind, 'crashed');
  }));

test('a handler whose result throws when it is looked at has crashed', () =>
  withSystem(async (system) => {
    const ref: Ref<Message> = spawn(system, () => hostile());
    await rejectsWith(ask(ref), 'crashed');
    assert.equal((await stopped(ref)).kind, 'crashed');
  }));

test('half a surrogate pair in a name or an id has a path, is decided about, and is drawn', () =>
  withSystem(async (system, { lines }) => {
    const half = '\ud800';
    const ref: Ref<Message> = spawn(system, handle, {
      name: half,
      onCrash: (_msg, _error, ctx) => ctx.reset,
    });
    dispatch(ref, 'crash');
    assert.equal(await ask(ref), 'here');
    assert.equal(ref.name, half);
    assert.equal(ref.path, 'test://%EF%BF%BD');
    assert.equal(tree(system).children[0]?.path, ref.path);
    const all = entities<Message, object>(system, {
      kind: 'thing',
      sleepAfterMs: 60_000,
      intensity: { max: 0, withinMs: 1000 },
      activate: () => ({}),
      handle: () => {
        throw new Error('crash');
      },
    });
    const asked = () => all.ask(half, (replyTo: Ref<string>) => ({ replyTo }), 60_000);
    await rejectsWith(asked(), 'crashed');
    await until(() => all.awake() === 0, 'the entity to cool down');
    await rejectsWith(asked(), 'crashed');
    all.tell(half, 'crash');
    assert.equal(lines.filter(({ message }) => message === 'actor crashed').length > 1, true);
  }));

/** Options that throw from the moment on when `broken` says so. */
function options(
  name: keyof SpawnOptions<undefined, Message>,
  broken: () => boolean,
): SpawnOptions<undefined, Message> {
  const onCrash = (_msg: unknown, _error: unknown, ctx: CrashContext<Message>): Decision => ctx.reset;
  const plain: SpawnOptions<undefined, Message> = { shutdownMs: 5, onCrash };
  return new Proxy(plain, {
    get(target, key) {
      if (key === name && broken()) throw new Error(`${name} is broken`);
      return Reflect.get(target, key);
    },
  });
}

test('options that throw when they are read stop their actor at the worst', () =>
  withSystem(async (system, { lines }) => {
    for (const name of ['onCrash', 'intensity', 'backoff', 'initialStateFunc', 'afterStop'] as const) {
      let broken = false;
      const parent = spawn(system, nothing);
      const ref = spawn<undefined, Message>(
        parent,
        handle,
        options(name, () => broken),
      );
      spawn(ref, nothing);
      broken = true;
      dispatch(ref, 'crash');
      const waiting = ask(ref).catch(nothing);
      await until(() => stats(system).kinds.actor?.failed !== 0, 'the crash');
      await waiting;
      stop(parent);
      await stopped(parent);
      await stopped(ref);
      assert.equal(stats(system).kinds.actor?.alive, 0, name);
      assert.ok(
        lines.some(({ fields }) => fields.err instanceof Error && fields.err.message === `${name} is broken`),
        name,
      );
    }
  }));

test('a grace whose length throws when it is read is none: the handler is abandoned', () =>
  withSystem(async (system) => {
    let broken = false;
    const stuck = (): Promise<undefined> => new Promise(() => {});
    const parent = spawn(system, nothing);
    const ref = spawn<undefined, Message>(
      parent,
      stuck,
      options('shutdownMs', () => broken),
    );
    const answer = ask(ref);
    await until(() => stats(system).kinds.actor?.handled === 1, 'the handler');
    broken = true;
    stop(parent);
    await stopped(parent);
    await rejectsWith(answer, 'stopped');
  }));
