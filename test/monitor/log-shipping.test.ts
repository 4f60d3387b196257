/** `--log-service`: lines arrive at a receiver that speaks OTLP over gRPC, and a receiver that is away costs nothing but lines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openLog } from '../../cmd/observability/log.ts';
import { logShipper } from '../../transports/clients/otlp/logs.ts';
import { receiver } from '../support/monitor/otlp-receiver.ts';
import { freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

test('log lines arrive with their level, fields and source, and without secrets', async (t) => {
  const { got, port } = await receiver(t);
  const shipper = logShipper({ address: `127.0.0.1:${port}`, source: 'cluster-monitor' });
  const log = openLog('info', { write: (line) => shipper.write(line) });
  log.info({ container: 'abc', count: 3, password: 'do not tell' }, 'first');
  log.warn({ nested: { a: 1 } }, 'second');
  log.debug({}, 'below the level');
  await until(() => got.length === 2, { what: 'both lines arrive' });
  assert.deepEqual(got[0], {
    ...{ source: 'cluster-monitor', level: 'info', text: 'first' },
    fields: { container: 'abc', count: '3', password: '[Redacted]' },
  });
  assert.deepEqual([got[1]?.level, got[1]?.text, got[1]?.fields.nested], ['warn', 'second', '{"a":1}']);
  log.info({}, 'last');
  await shipper.close(5000);
  assert.equal(got.at(-1)?.text, 'last');
  assert.deepEqual(shipper.numbers(), { shipped: 3, dropped: 0, waiting: 0 });
});

test('while the receiver is away the newest lines wait, the oldest are dropped and counted', async (t) => {
  const port = await freePort();
  const shipper = logShipper({
    ...{ address: `127.0.0.1:${port}`, source: 'test', capacity: 100, retryMs: 100, timeoutMs: 500 },
  });
  t.after(() => shipper.close(0));
  const log = openLog('info', { write: (line) => shipper.write(line) });
  for (let line = 0; line < 1000; line++) log.info({}, String(line));
  await until(() => shipper.numbers().dropped === 900, { what: 'what does not fit is dropped' });
  const { got } = await receiver(t, port);
  await until(() => shipper.numbers().shipped === 100, { timeoutMs: 60_000, what: 'the rest is shipped' });
  assert.deepEqual([got[0]?.text, got.at(-1)?.text, got.length], ['900', '999', 100]);
});
