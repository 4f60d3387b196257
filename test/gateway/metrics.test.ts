/** Numbers of the gateway: by kind and class, and never by what a client chooses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { answeredBy, gatewayMetrics } from '../../cmd/observability/gateway-metrics.ts';
import type { AccessEntry } from '../../proto/gateway/traffic.ts';
import { ResponseCache } from '../../transports/gateway/cache/response-cache.ts';

const entry = (more: Partial<AccessEntry>): AccessEntry => ({
  ...{ address: '192.0.2.1', method: 'GET', host: 'a.test', target: '/x', minor: 1, status: 200, bytes: 10, ms: 20 },
  ...{ upstream: '10.0.0.1:80', isBroken: false, referer: '', userAgent: '' },
  ...more,
});

test('an answer is of one kind', () => {
  const kind = (more: Partial<AccessEntry>) => answeredBy(entry(more), 'compute.troupe.test');
  assert.equal(kind({}), 'route');
  assert.equal(kind({ host: 'c1.compute.troupe.test' }), 'container');
  assert.equal(kind({ upstream: 'cache', host: 'c1.compute.troupe.test' }), 'cache');
  assert.equal(kind({ upstream: '' }), 'gateway');
  assert.equal(kind({ upstream: '', method: '-' }), 'malformed');
});

test('requests are counted and timed; a thousand hosts, paths and methods make no series more', async (t) => {
  const registry = new Registry();
  const metrics = gatewayMetrics(registry, 'troupe.test');
  const cache = new ResponseCache();
  t.after(() => cache.close());
  const open = { http: 3, upgrade: 2, passthrough: 1, origin: 5, origin_idle: 4 };
  metrics.watch({ connections: () => open }, cache);
  metrics.onAccess(entry({}));
  metrics.onAccess(entry({ status: 502, bytes: 0, isBroken: true }));
  const before = await registry.metrics();
  for (const line of [
    'troupe_gateway_requests_total{kind="route",status="2xx"} 1',
    'troupe_gateway_requests_total{kind="route",status="5xx"} 1',
    'troupe_gateway_upstream_failures_total{kind="route"} 1',
    'troupe_gateway_response_bytes_total{kind="route"} 10',
    'troupe_gateway_request_seconds_bucket{le="0.025",kind="route"} 2',
    'troupe_gateway_connections{kind="passthrough"} 1',
    'troupe_gateway_cache_hits_total 0',
    'troupe_gateway_cache_bytes 0',
  ])
    assert.ok(before.includes(`${line}\n`), `${line} in\n${before}`);
  for (let n = 0; n < 1000; n++)
    metrics.onAccess(
      entry({ host: `h${n}.test`, method: `M${n}`, target: `/${n}`, upstream: `10.0.0.1:${n}`, userAgent: `u${n}` }),
    );
  const after = await registry.metrics();
  assert.equal(after.split('\n').length, before.split('\n').length);
  assert.match(after, /requests_total\{kind="route",status="2xx"\} 1001\n/);
});
