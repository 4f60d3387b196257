import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  currentTrace,
  dispatch,
  entities,
  query,
  type Ref,
  type SystemRef,
  spawn,
  start,
  stop,
  stopped,
  type Tracer,
  withTrace,
} from '../../supervision/index.ts';
import { TestSystem } from '../../supervision/testing/index.ts';
import { keptLog } from '../support/log.ts';
import { rejectsWith, until, withSystem } from '../support/supervision/system.ts';
import { KeepingTracer } from '../support/supervision/tracer.ts';

const TRACE = '0123456789abcdef0123456789abcdef';
const REQUEST = `00-${TRACE}-0000000000000001-01`;

interface Asking {
  readonly type: 'greet';
  readonly replyTo: Ref<string | undefined>;
}

const greet = (replyTo: Ref<string | undefined>): Asking => ({ type: 'greet', replyTo });

async function traced(f: (system: SystemRef, tracer: KeepingTracer, log: ReturnType<typeof keptLog>) => Promise<void>) {
  const [tracer, log] = [new KeepingTracer(), keptLog()];
  const system = start({ name: 'test', log, tracer });
  try {
    await f(system, tracer, log);
  } finally {
    stop(system);
    await stopped(system);
  }
}

test('an ask within a handler, after its awaits too, belongs to the trace of the message that is handled', () =>
  traced(async (system, { spans }, log) => {
    const back = entities<Asking, null>(system, {
      kind: 'back',
      sleepAfterMs: 1000,
      activate: async () => null,
      handle: (state, { replyTo }, ctx) => {
        ctx.log.info({}, 'greeted');
        dispatch(replyTo, ctx.trace);
        return state;
      },
    });
    const front = spawn<null, Asking>(
      system,
      async (state, { replyTo }) => {
        await new Promise((resolve) => setImmediate(resolve));
        dispatch(replyTo, await back.ask('one', greet, 5000));
        return state;
      },
      { kind: 'front', name: 'front', initialState: null },
    );
    const seen = await withTrace(REQUEST, () => query(front, greet, 5000));
    assert.equal(seen?.slice(3, 35), TRACE);
    await until(() => spans.length === 4 && spans.every(({ ended }) => ended), 'four spans that are over');
    assert.deepEqual(
      spans.map(({ operation, kind, message, path, id, parent }) => [operation, kind, message, path, id, parent]),
      [
        ['ask', 'front', 'greet', 'test://front', '0000000000000002', '0000000000000001'],
        ['handler', 'front', 'greet', 'test://front', '0000000000000003', '0000000000000002'],
        ['ask', 'back', 'greet', spans[2]?.path, '0000000000000004', '0000000000000003'],
        ['handler', 'back', 'greet', spans[2]?.path, '0000000000000005', '0000000000000004'],
      ],
    );
    assert.ok(spans.every(({ error }) => error === undefined));
    const line = log.lines.find(({ message }) => message === 'greeted');
    assert.equal(line?.fields.trace_id, TRACE);
  }));

test('tells carry it on; what is sent outside of a trace, by a timer or a beat has none', () =>
  traced(async (system, { spans }) => {
    const seen = new Map<string, string | undefined>();
    const last = spawn<null, string>(
      system,
      (state, msg, ctx) => {
        seen.set(msg, ctx.trace);
        return state;
      },
      { initialState: null },
    );
    const first = spawn<null, string>(
      system,
      (state, msg, ctx) => {
        if (msg === 'go') {
          ctx.after(1, 'timer');
          ctx.every(1, 'beat');
        }
        if (!seen.has(msg)) dispatch(last, msg);
        return state;
      },
      { initialState: null },
    );
    withTrace(REQUEST, () => dispatch(first, 'go'));
    dispatch(first, 'outside');
    await until(() => seen.size === 4, 'all');
    assert.equal(seen.get('go')?.slice(3, 35), TRACE);
    for (const msg of ['outside', 'timer', 'beat']) assert.equal(seen.get(msg), undefined, msg);
    assert.deepEqual(
      spans.map(({ operation, message }) => [operation, message]),
      [
        ['handler', 'string'],
        ['handler', 'string'],
      ],
    );
  }));

for (const [how, handle] of [
  [
    'throws',
    () => {
      throw new Error('broken');
    },
  ],
  ['rejects', async () => Promise.reject(new Error('broken'))],
] as const) {
  test(`when the handler ${how}, its span and that of the ask end with an error`, () =>
    traced(async (system, { spans }) => {
      const broken = spawn<null, Asking>(system, handle, { initialState: null });
      await rejectsWith(
        withTrace(REQUEST, () => query(broken, greet, 5000)),
        'crashed',
      );
      await until(() => spans.length === 2 && spans.every(({ ended }) => ended), 'two spans that are over');
      for (const { error } of spans) assert.ok(error instanceof Error);
    }));
}

test('an ask that nobody answers ends its span with the timeout', async () => {
  const tracer = new KeepingTracer();
  // Its time passes once the ask was handled, and not before.
  const system = new TestSystem({ tracer });
  const silent = spawn<null, Asking>(system.ref, (state) => state, { initialState: null });
  const asked = withTrace(REQUEST, () => query(silent, greet, 5));
  await rejectsWith(system.until(asked), 'timeout');
  assert.deepEqual(
    tracer.spans.map(({ operation, error }) => [operation, error instanceof Error && 'code' in error && error.code]),
    [
      ['ask', 'timeout'],
      ['handler', false],
    ],
  );
  await system.end();
});

test('an asker that gives up ends the span of its ask', () =>
  traced(async (system, { spans }) => {
    const silent = spawn<null, Asking>(system, (state) => state, { initialState: null });
    const asker = new AbortController();
    const asked = withTrace(REQUEST, () => query(silent, greet, 600_000, { signal: asker.signal }));
    asker.abort();
    await assert.rejects(asked);
    await until(() => spans[0]?.ended === true, 'the span is over');
    assert.ok(spans[0]?.error instanceof Error);
  }));

/** Answers with the context that its message came with. */
const echo = (system: SystemRef) =>
  spawn<null, Asking>(
    system,
    (state, { replyTo }, ctx) => {
      dispatch(replyTo, ctx.trace);
      return state;
    },
    { initialState: null },
  );

test('a tracer that throws costs its spans and nothing else', async () => {
  const tracer: Tracer = {
    startSpan: () => {
      throw new Error('no tracer');
    },
  };
  const system = start({ tracer });
  assert.equal(await withTrace(REQUEST, () => query(echo(system), greet, 5000)), REQUEST);
  stop(system);
  await stopped(system);
});

test('without a tracer nothing is carried', () =>
  withSystem(async (system) => {
    assert.equal(await withTrace(REQUEST, () => query(echo(system), greet, 5000)), undefined);
    assert.equal(currentTrace(), undefined);
  }));
