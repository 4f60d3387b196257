import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dispatch, query, type Ref, spawn, startSupervisor, stop, stopped } from '../../supervision/index.ts';
import { type Asking, until, withSystem } from '../support/supervision/system.ts';

const LIMIT = 5;
const cause = new Error('it will never work');

/** An actor that crashes in each of its lives, by a message it sends itself when it begins. */
function looping(parent: Parameters<typeof spawn>[0]): { readonly ref: Ref<'go'>; readonly lives: () => number } {
  let lives = 0;
  const ref = spawn<undefined, 'go'>(
    parent,
    () => {
      throw cause;
    },
    {
      name: 'looping',
      initialStateFunc: (ctx) => {
        lives++;
        dispatch(ctx.self, 'go');
        return undefined;
      },
      onCrash: (_msg, _error, ctx) => ctx.reset,
      intensity: { max: LIMIT, withinMs: 60_000 },
    },
  );
  return { ref, lives: () => lives };
}

function echo(parent: Parameters<typeof spawn>[0]): Ref<Asking<string>> {
  return spawn<undefined, Asking<string>>(parent, (_, { replyTo }) => {
    dispatch(replyTo, 'alive');
    return undefined;
  });
}

test('the restart limit ends a crash loop, the parent decides once, and the siblings never notice', () =>
  withSystem(async (system, { lines }) => {
    const children: { sibling?: Ref<Asking<string>>; loop?: ReturnType<typeof looping> } = {};
    let decisions = 0;
    const parent = spawn<undefined, 'begin'>(
      system,
      (_, _msg, ctx) => {
        children.sibling = echo(ctx.self);
        children.loop = looping(ctx.self);
        return undefined;
      },
      {
        name: 'parent',
        onCrash: (_msg, _error, ctx) => {
          decisions++;
          return ctx.stopChild;
        },
      },
    );
    dispatch(parent, 'begin');
    await until(() => children.loop !== undefined, 'the children');
    const { sibling, loop } = children;
    assert.ok(sibling !== undefined && loop !== undefined);
    const reason = await stopped(loop.ref);
    assert.deepEqual(reason, { kind: 'intensity', error: cause });
    assert.equal(loop.lives(), LIMIT + 1);
    assert.equal(decisions, 1);
    const byParent = lines.filter(({ fields }) => fields.decidedBy === 'test://parent');
    assert.equal(byParent.length, 1, 'one line for the decision of the parent');
    const [line] = byParent;
    assert.equal(line?.fields.decision, 'stopChild');
    assert.equal(line?.fields.actor, 'test://parent/looping');
    const { err } = line?.fields ?? {};
    assert.ok(err === cause || (err instanceof Error && err.cause === cause), 'the cause is in the line');
    assert.equal(await query(sibling, (replyTo: Ref<string>) => ({ replyTo }), 5000), 'alive');
  }));

test('a supervised crash loop ends with its supervisor, and the supervisors beside it live', () =>
  withSystem(async (system) => {
    let starts = 0;
    const failing = await startSupervisor(system, {
      name: 'failing',
      strategy: 'one-for-one',
      intensity: { max: LIMIT, withinMs: 60_000 },
      children: [
        {
          id: 'looping',
          restart: 'permanent',
          shutdownMs: 100,
          start: (parent) => {
            starts++;
            const ref = spawn<undefined, 'go'>(parent, () => {
              throw cause;
            });
            dispatch(ref, 'go');
            return ref;
          },
        },
      ],
    });
    const beside = echo(system);
    const reason = await stopped(failing);
    assert.equal(reason.kind, 'intensity');
    assert.equal(starts, LIMIT + 1);
    assert.equal(await query(beside, (replyTo: Ref<string>) => ({ replyTo }), 5000), 'alive');
    stop(beside);
  }));
