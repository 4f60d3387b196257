import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { Tracing } from '../../cmd/observability/tracing.ts';
import { currentTrace, dispatch, query, type Ref, spawn, start, stop, stopped } from '../../supervision/index.ts';
import { SpanShipper } from '../../transports/clients/otlp/spans.ts';
import { traceCollector } from '../support/monitor/trace-collector.ts';
import { until } from '../support/until.ts';

const TRACE = '0123456789abcdef0123456789abcdef';
const reply = (status: number) => ({ status, headers: [], body: '' });

interface Asking {
  readonly type: 'greet';
  readonly replyTo: Ref<string>;
}

test('a request with a traceparent is spans of the request, of its ask and of the handler, in one trace', async (t) => {
  const { spans, endpoint } = await traceCollector(t);
  const tracing = new Tracing({ endpoint, every: 0, source: 'test' });
  const system = start({ name: 'test', tracer: tracing });
  const greeter = spawn<null, Asking>(
    system,
    (state, { replyTo }) => {
      dispatch(replyTo, 'hello');
      return state;
    },
    { name: 'greeter', kind: 'greeter', initialState: null },
  );
  const serve = async () => {
    await query(greeter, (replyTo: Ref<string>): Asking => ({ type: 'greet', replyTo }), 5000);
    return reply(200);
  };
  await tracing.requests('greetings')('getGreeting', `00-${TRACE}-00000000000000aa-01`, serve);
  // Not recorded, or no context at all.
  for (const other of [`00-${TRACE}-00000000000000aa-00`, 'nonsense', undefined])
    await tracing.requests('greetings')('getGreeting', other, serve);
  await until(() => spans.length === 3, { what: 'three spans' });
  stop(system);
  await stopped(system);
  await tracing.close();
  const byName = new Map(spans.map((span) => [span.name, span]));
  const [request, ask, handler] = ['http getGreeting', 'ask greeter greet', 'handler greeter greet'].map((name) =>
    byName.get(name),
  );
  assert.ok(request !== undefined && ask !== undefined && handler !== undefined);
  assert.deepEqual(
    [request, ask, handler].map(({ traceId, parentSpanId, kind }) => [traceId, parentSpanId, kind]),
    [
      [TRACE, '00000000000000aa', 2],
      [TRACE, request.spanId, 3],
      [TRACE, ask.spanId, 1],
    ],
  );
  assert.equal(spans.length, 3);
  assert.ok(BigInt(request.startTimeUnixNano) <= BigInt(handler.startTimeUnixNano));
  assert.ok(BigInt(handler.endTimeUnixNano) <= BigInt(request.endTimeUnixNano));
});

test('of the requests without a context one in so many begins a trace', async (t) => {
  const { endpoint } = await traceCollector(t);
  const tracing = new Tracing({ endpoint, every: 3, source: 'test' });
  const traced: boolean[] = [];
  const trace = tracing.requests('any');
  for (let n = 0; n < 6; n++) {
    await trace('any', undefined, async () => {
      traced.push(currentTrace() !== undefined);
      return reply(200);
    });
  }
  await tracing.close();
  assert.deepEqual(traced, [false, false, true, false, false, true]);
});

test('a collector that is away costs spans, which are counted, and nobody waits for it', async (t) => {
  const ends: (() => Promise<void> | void)[] = [];
  const closed = await traceCollector({ after: (end) => void ends.push(end) });
  for (const end of ends) await end();
  const tracing = new Tracing({ endpoint: closed.endpoint, every: 1, source: 'test', retryMs: 10 });
  const registry = new Registry();
  tracing.metrics(registry);
  const answer = await tracing.requests('any')('any', undefined, async () => reply(503));
  assert.equal(answer.status, 503);
  await tracing.close();
  const page = await registry.metrics();
  assert.match(page, /^troupe_spans_dropped_total 1$/m);
  assert.match(page, /^troupe_spans_shipped_total 0$/m);

  // Back again: what still waits goes out.
  const { spans, endpoint } = await traceCollector(t, Number(new URL(closed.endpoint).port));
  const shipper = new SpanShipper({ endpoint, source: 'test', instance: 'one', capacity: 2 });
  const span = {
    traceId: TRACE,
    parentSpanId: undefined,
    kind: 'internal',
    startMs: Date.now(),
    endMs: Date.now(),
  } as const;
  for (const n of ['1', '2', '3'])
    shipper.add({ ...span, spanId: n.repeat(16), name: n, attributes: {}, error: n === '3' ? 'timeout' : undefined });
  assert.equal(shipper.waiting, 2);
  await shipper.close(5000);
  assert.deepEqual([shipper.shipped, shipper.dropped], [2, 1]);
  assert.deepEqual(
    spans.map(({ name, status }) => [name, status]),
    [
      ['2', {}],
      ['3', { code: 2, message: 'timeout' }],
    ],
  );
});
