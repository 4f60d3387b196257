import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { nodeMetrics } from '../../cmd/observability/node-metrics.ts';
import { pause } from '../support/pause.ts';
import { until } from '../support/until.ts';

/** Keeps the event loop for so long. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

test('the lag of the event loop is how late it was, and counts from the scrape before', async () => {
  const registry = new Registry();
  nodeMetrics(registry);
  const read = async () => {
    const text = await registry.metrics();
    return (name: string) => Number(new RegExp(`^nodejs_eventloop_lag_${name}_seconds (\\S+)$`, 'm').exec(text)?.[1]);
  };
  let lag = await read();
  await until(
    async () => {
      // A block is seen between two looks: the first one after a scrape only says when it was.
      await pause(250, 'watch');
      block(400);
      await pause(250, 'watch');
      lag = await read();
      return lag('max') >= 0.2;
    },
    { what: 'a block is seen' },
  );
  for (const name of ['min', 'max', 'mean', 'p50', 'p90', 'p99'])
    assert.ok(lag(name) >= 0 && lag(name) <= lag('max'), name);
  assert.ok(lag('stddev') >= 0);
  await until(async () => (await read())('max') < 0.2, { what: 'the block is forgotten' });
});

test('sums that are no counters are left out', async () => {
  const registry = new Registry();
  nodeMetrics(registry);
  const text = await registry.metrics();
  assert.match(text, /^nodejs_active_handles\{/m);
  assert.doesNotMatch(text, /nodejs_active_\w+_total/);
});
