/**
 * What every engine with nact's verbs does alike. Each engine is put behind one small set of verbs; where ours differs
 * from nact on purpose is listed in docs/engineering/runtime-semantics.md and tested in the other files of this folder.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, until } from './system.ts';

/** An opaque ref of an engine. */
export type AnyEngineRef = unknown;

/** What a handler gets besides state and message. */
export interface EngineContext {
  readonly self: AnyEngineRef;
  readonly name: string;
  readonly children: { readonly size: number; has(name: string): boolean; keys(): Iterable<string> };
}

/** The names of the decisions. */
export type DecisionName =
  | 'stop'
  | 'stopAll'
  | 'stopChild'
  | 'stopAllChildren'
  | 'resume'
  | 'reset'
  | 'resetAll'
  | 'resetChild'
  | 'resetAllChildren'
  | 'escalate';

/** What an actor is made of. */
export interface EngineActor<State, Msg> {
  readonly name: string;
  readonly handle: (state: State, msg: Msg, ctx: EngineContext) => State | Promise<State>;
  readonly initialState?: State;
  readonly initialStateFunc?: (ctx: EngineContext) => State;
  readonly decide?: (msg: Msg | undefined, error: unknown, child: unknown) => DecisionName | Promise<DecisionName>;
  readonly afterStop?: (state: State) => void;
  readonly shutdownAfter?: number;
}

/** An engine under test. */
export interface ActorEngine {
  readonly name: string;
  start(): AnyEngineRef;
  spawn<State, Msg>(parent: AnyEngineRef, actor: EngineActor<State, Msg>): AnyEngineRef;
  spawnStateless<Msg>(parent: AnyEngineRef, name: string, f: (msg: Msg) => void | Promise<void>): AnyEngineRef;
  dispatch(ref: AnyEngineRef, msg: unknown): void;
  query(ref: AnyEngineRef, make: (replyTo: AnyEngineRef) => unknown, timeoutMs: number): Promise<unknown>;
  stop(ref: AnyEngineRef): void;
}

type CounterMessage = 'add' | 'crash' | { readonly replyTo: AnyEngineRef };

/** Registers the suite for one engine. */
export function conformance(engine: ActorEngine): void {
  const { dispatch, query, spawn, stop } = engine;

  const check = (name: string, f: (system: AnyEngineRef) => Promise<void>): void => {
    test(`${engine.name}: ${name}`, async () => {
      const system = engine.start();
      try {
        await f(system);
      } finally {
        stop(system);
      }
    });
  };

  const counter = (
    parent: AnyEngineRef,
    name: string,
    more: Partial<EngineActor<number, CounterMessage>> = {},
  ): AnyEngineRef =>
    spawn<number, CounterMessage>(parent, {
      name,
      initialState: 0,
      handle: (n, msg) => {
        if (msg === 'crash') throw new Error(`${name} crashed`);
        if (msg === 'add') return n + 1;
        dispatch(msg.replyTo, n);
        return n;
      },
      decide: () => 'stop',
      ...more,
    });

  const value = (ref: AnyEngineRef): Promise<unknown> => query(ref, (replyTo) => ({ replyTo }), 1000);
  const lives = async (ref: AnyEngineRef): Promise<boolean> =>
    query(ref, (replyTo) => ({ replyTo }), 50).then(
      () => true,
      () => false,
    );
  const ended = async (ref: AnyEngineRef): Promise<void> => {
    for (let i = 0; i < 50; i++) if (!(await lives(ref))) return;
    assert.fail('it still lives');
  };

  check('messages are handled in order, each with the state the one before returned', async (system) => {
    const seen: string[] = [];
    const ref = spawn<number, number>(system, {
      name: 'order',
      initialState: 0,
      handle: (sum, n) => {
        seen.push(`${sum}+${n}`);
        return sum + n;
      },
    });
    for (const n of [1, 2, 3]) dispatch(ref, n);
    await until(() => seen.length === 3, 'three messages');
    assert.deepEqual(seen, ['0+1', '1+2', '3+3']);
  });

  check('a message is never handled before dispatch returns', async (system) => {
    let handled = false;
    const ref = spawn<undefined, string>(system, {
      name: 'later',
      handle: () => {
        handled = true;
        return undefined;
      },
    });
    dispatch(ref, 'x');
    assert.equal(handled, false);
    await until(() => handled, 'it is handled');
  });

  check('an async handler holds the next message until its promise ended', async (system) => {
    const held = gate();
    const seen: number[] = [];
    const ref = spawn<number, number>(system, {
      name: 'async',
      initialState: 0,
      handle: async (sum, n) => {
        seen.push(n);
        if (n === 1) await held.opened;
        return sum + n;
      },
    });
    dispatch(ref, 1);
    dispatch(ref, 2);
    await until(() => seen.length === 1, 'the first');
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(seen, [1]);
    held.open();
    await until(() => seen.length === 2, 'the second');
  });

  check('actors do not wait for each other', async (system) => {
    const held = gate();
    const slow = spawn<undefined, string>(system, { name: 'slow', handle: () => held.opened.then(() => undefined) });
    dispatch(slow, 'x');
    assert.equal(await value(counter(system, 'quick')), 0);
    held.open();
  });

  check('initialStateFunc makes the state with a context', async (system) => {
    const ref = spawn<string, { replyTo: AnyEngineRef }>(system, {
      name: 'made',
      initialStateFunc: (ctx) => `made for ${ctx.name}`,
      handle: (state, { replyTo }) => {
        dispatch(replyTo, state);
        return state;
      },
    });
    assert.equal(await value(ref), 'made for made');
  });

  check('an ask gets its reply, also from another actor and after the handler returned', async (system) => {
    const back = counter(system, 'back');
    const front = spawn<undefined, { replyTo: AnyEngineRef }>(system, {
      name: 'front',
      handle: (_, msg) => {
        setImmediate(() => dispatch(back, msg));
        return undefined;
      },
    });
    assert.equal(await value(front), 0);
  });

  check('an ask nobody answers rejects at its deadline; a second reply changes nothing', async (system) => {
    const silent = spawn<undefined, unknown>(system, { name: 'silent', handle: () => undefined });
    await assert.rejects(query(silent, (replyTo) => ({ replyTo }), 5));
    const double = spawn<undefined, { replyTo: AnyEngineRef }>(system, {
      name: 'double',
      handle: (_, { replyTo }) => {
        dispatch(replyTo, 1);
        dispatch(replyTo, 2);
        return undefined;
      },
    });
    assert.equal(await value(double), 1);
  });

  check('asking an actor that has ended rejects; telling it does nothing', async (system) => {
    const ref = counter(system, 'gone');
    stop(ref);
    dispatch(ref, 'add');
    await assert.rejects(value(ref));
  });

  check('children are found in the context until they end', async (system) => {
    const seen: string[][] = [];
    const parent = spawn<AnyEngineRef[], string>(system, {
      name: 'parent',
      initialState: [],
      handle: (children, msg, ctx) => {
        if (msg === 'stop first') stop(children[0]);
        else if (msg === 'look') seen.push([...ctx.children.keys()]);
        else children.push(counter(ctx.self, msg));
        return children;
      },
    });
    for (const msg of ['a', 'b', 'look', 'stop first', 'look']) dispatch(parent, msg);
    await until(() => seen.length === 2, 'two looks');
    assert.deepEqual(seen, [['a', 'b'], ['b']]);
  });

  check('a name can be used once among living siblings, and again after the end', async (system) => {
    const ref = counter(system, 'same');
    assert.throws(() => counter(system, 'same'));
    stop(ref);
    counter(system, 'same');
  });

  check('nothing can be spawned under an actor that has ended', async (system) => {
    const ref = counter(system, 'gone');
    stop(ref);
    assert.throws(() => counter(ref, 'child'));
  });

  check('stopping an actor puts its children out of reach, and calls afterStop with its state', async (system) => {
    const ends: number[] = [];
    const parent = counter(system, 'parent', { afterStop: (n) => void ends.push(n) });
    const child = counter(parent, 'child');
    dispatch(parent, 'add');
    assert.deepEqual([await value(parent), await value(child)], [1, 0]);
    stop(parent);
    await assert.rejects(value(child));
    await until(() => ends.length === 1, 'the end');
    assert.deepEqual(ends, [1]);
  });

  check('stopping the system stops all', async (system) => {
    const ref = counter(counter(system, 'a'), 'b');
    stop(system);
    await assert.rejects(value(ref));
  });

  check('an idle actor stops after shutdownAfter', async (system) => {
    let over = false;
    counter(system, 'idle', {
      shutdownAfter: 10,
      afterStop: () => {
        over = true;
      },
    });
    await until(() => over, 'the end');
  });

  check('onCrash gets the message and the error', async (system) => {
    const seen: unknown[] = [];
    const ref = counter(system, 'crasher', {
      decide: (msg, error, child) => {
        seen.push(msg, error instanceof Error && error.message, child);
        return 'stop';
      },
    });
    dispatch(ref, 'crash');
    await until(() => seen.length === 3, 'the decision');
    assert.deepEqual(seen, ['crash', 'crasher crashed', undefined]);
    await ended(ref);
  });

  check('resume keeps the state and what waits', async (system) => {
    const ref = counter(system, 'r', { decide: () => 'resume' });
    for (const msg of ['add', 'crash', 'add'] as const) dispatch(ref, msg);
    assert.equal(await value(ref), 2);
  });

  check('reset makes the state anew and keeps what waits', async (system) => {
    const ref = counter(system, 'r', { decide: () => Promise.resolve('reset' as const) });
    for (const msg of ['add', 'add', 'crash', 'add'] as const) dispatch(ref, msg);
    assert.equal(await value(ref), 1);
  });

  check('reset stops the children', async (system) => {
    const parent = counter(system, 'parent', { decide: () => 'reset' });
    const child = counter(parent, 'child');
    dispatch(parent, 'crash');
    assert.equal(await value(parent), 0);
    await ended(child);
  });

  for (const [decision, survivors] of [
    ['stop', ''],
    ['stopAll', ''],
    ['stopChild', 'parent b uncle'],
    ['stopAllChildren', 'parent uncle'],
    ['resetChild', 'parent a b uncle'],
    ['resetAllChildren', 'parent a b uncle'],
    ['reset', 'parent uncle'],
    ['resetAll', 'parent uncle'],
  ] as const) {
    check(`an escalated crash decided with ${decision}`, async (system) => {
      const top = counter(system, 'top');
      const uncle = counter(top, 'uncle');
      const children: unknown[] = [];
      const parent = counter(top, 'parent', {
        decide: (_msg, _error, child) => {
          children.push(child !== undefined);
          return decision;
        },
      });
      const a = counter(parent, 'a', { decide: () => 'escalate' });
      const b = counter(parent, 'b');
      for (const ref of [a, b]) dispatch(ref, 'add');
      assert.deepEqual([await value(a), await value(b)], [1, 1]);
      dispatch(a, 'crash');
      await until(() => children.length === 1, 'the decision');
      assert.deepEqual(children, [true]);
      await new Promise((resolve) => setImmediate(resolve));
      const living: string[] = [];
      for (const [name, ref] of Object.entries({ parent, a, b, uncle })) if (await lives(ref)) living.push(name);
      const expected = decision === 'stop' ? 'uncle' : survivors;
      assert.equal(living.join(' '), expected);
      if (decision === 'resetChild') assert.deepEqual([await value(a), await value(b)], [0, 1]);
      if (decision === 'resetAllChildren') assert.deepEqual([await value(a), await value(b)], [0, 0]);
    });
  }

  check('a stateless actor survives what its messages throw', async (system) => {
    const ref = engine.spawnStateless<{ replyTo: AnyEngineRef } | 'crash'>(system, 'stateless', (msg) => {
      if (msg === 'crash') throw new Error('crash');
      dispatch(msg.replyTo, 'alive');
    });
    dispatch(ref, 'crash');
    assert.equal(await value(ref), 'alive');
  });
}
