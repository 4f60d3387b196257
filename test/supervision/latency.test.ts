import '../support/own-process.ts'; // It measures how long the event loop of its process takes.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { processMetrics } from '../../cmd/observability/pages.ts';
import {
  dispatch,
  LATENCY_BOUNDS_MS,
  type LatencyNumbers,
  latencies,
  type SystemRef,
  spawn,
  spawnStateless,
  stats,
} from '../../supervision/index.ts';
import { pause } from '../support/pause.ts';
import { timersDue, until, withSystem } from '../support/supervision/system.ts';

/** The latencies of one type of message; all are none when it was not seen. */
function of(system: SystemRef, kind: string, type: string): Pick<LatencyNumbers, 'queue' | 'handler'> {
  const none = { counts: [], sumMs: 0 };
  return latencies(system).find((each) => each.kind === kind && each.type === type) ?? { queue: none, handler: none };
}

const total = (counts: readonly number[]): number => counts.reduce((sum, n) => sum + n, 0);
/** How many were longer than a bound of LATENCY_BOUNDS_MS. */
const above = (ms: number, counts: readonly number[]): number => total(counts.slice(LATENCY_BOUNDS_MS.indexOf(ms) + 1));

interface Order {
  readonly type: 'slow' | 'fast';
}

test('how long a handler takes is counted by kind and type of message, and how long the next one waited', () =>
  withSystem(async (system) => {
    const cook = spawn<null, Order>(
      system,
      async (state, { type }) => {
        if (type === 'slow') await pause(50, 'slow peer');
        return state;
      },
      { kind: 'cook', initialState: null },
    );
    dispatch(cook, { type: 'slow' });
    dispatch(cook, { type: 'fast' });
    await until(() => total(of(system, 'cook', 'fast').handler.counts) === 1, 'the second');
    const [slow, fast] = [of(system, 'cook', 'slow'), of(system, 'cook', 'fast')];
    assert.equal(above(25, slow.handler.counts), 1);
    assert.equal(above(25, slow.queue.counts), 0);
    assert.ok(slow.handler.sumMs >= 45, `${slow.handler.sumMs} ms`);
    assert.equal(above(25, fast.queue.counts), 1);
    assert.ok(fast.queue.sumMs >= 45, `${fast.queue.sumMs} ms`);
    assert.equal(above(25, fast.handler.counts), 0);
  }));

test('handlers that throw, of stateless actors, and of signals count as well', () =>
  withSystem(async (system) => {
    const pool = spawnStateless<Order>(
      system,
      async ({ type }) => {
        if (type === 'slow') await pause(50, 'slow peer');
        throw new Error('burnt');
      },
      { kind: 'pool', concurrency: 2 },
    );
    dispatch(pool, { type: 'slow' });
    spawn<null, Order>(
      system,
      () => {
        throw new Error('burnt');
      },
      {
        kind: 'timer',
        initialStateFunc: (ctx) => {
          ctx.after(1, { type: 'fast' });
          return null;
        },
      },
    );
    await timersDue(system, 60);
    await until(() => total(of(system, 'pool', 'slow').handler.counts) === 1, 'the stateless one');
    assert.equal(above(25, of(system, 'pool', 'slow').handler.counts), 1);
    assert.equal(total(of(system, 'timer', 'fast').handler.counts), 1);
  }));

test('of a flood a sample is taken, in which messages that come in turns have their share', () =>
  withSystem(async (system) => {
    const FLOOD = 500_000;
    const sink = spawn<null, Order>(system, (state) => state, {
      kind: 'sink',
      initialState: null,
      mailbox: { capacity: FLOOD },
    });
    const seen = () => ['slow', 'fast'].map((type) => total(of(system, 'sink', type).handler.counts));
    let sent = 0;
    while (seen().some((count) => count <= 20)) {
      assert.ok(sent < 100 * FLOOD, `${seen().join(' and ')} of ${sent}`);
      for (let n = 0; n < FLOOD; n++) dispatch(sink, { type: n % 2 === 0 ? 'slow' : 'fast' });
      sent += FLOOD;
      await until(() => stats(system).kinds.sink?.handled === sent, 'all');
    }
    const [slow = 0, fast = 0] = seen();
    assert.ok(slow + fast < sent / 10, `${slow + fast} in all`);
  }));

test('types without end are one type beyond a bound, and the page of numbers stays small', () =>
  withSystem(async (system) => {
    const odd = spawn<null, { type: string }>(system, (state) => state, { kind: 'odd', initialState: null });
    for (let n = 0; n < 100; n++) {
      dispatch(odd, { type: `type ${n}` });
      const seen = (): number => latencies(system).reduce((sum, { queue }) => sum + total(queue.counts), 0);
      await until(() => seen() >= n + 1, 'it was looked at');
      await pause(1, 'pace');
    }
    assert.equal(latencies(system).filter(({ kind }) => kind === 'odd').length, 33);
    assert.equal(total(of(system, 'odd', 'other').queue.counts), 68);
  }));

test('the page of numbers has both as histograms', () =>
  withSystem(async (system) => {
    const greeter = spawn<null, Order>(system, (state) => state, { kind: 'greeter', initialState: null });
    dispatch(greeter, { type: 'fast' });
    await until(() => total(of(system, 'greeter', 'fast').handler.counts) === 1, 'it was looked at');
    const lines = (await processMetrics(system).registry.metrics()).split('\n');
    for (const name of ['troupe_actors_queue_seconds', 'troupe_actors_handler_seconds']) {
      assert.ok(lines.includes(`# TYPE ${name} histogram`), name);
      const series = lines.filter((line) => line.startsWith(`${name}_`) && line.includes('kind="greeter"'));
      assert.equal(series.length, LATENCY_BOUNDS_MS.length + 3);
      assert.ok(series.includes(`${name}_count{kind="greeter",message="fast"} 1`), series.join('\n'));
      assert.ok(series.includes(`${name}_bucket{kind="greeter",message="fast",le="+Inf"} 1`), series.join('\n'));
      assert.ok(series.some((line) => line.startsWith(`${name}_bucket{kind="greeter",message="fast",le="0.005"}`)));
    }
  }));
