/** Which pages may call with the visitor's cookies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dashboardPages } from '../../transports/api/cors.ts';

test('pages that came over plain HTTP are no dashboard, but for names of the browser’s own machine', () => {
  const maySee = dashboardPages('cloud.test', 'compute.cloud.test');
  assert.equal(maySee('https://console.cloud.test'), true);
  assert.equal(maySee(undefined), true);
  for (const origin of ['http://cloud.test', 'http://console.cloud.test', 'http://console.cloud.test:8080'])
    assert.equal(maySee(origin), false, origin);
  const mayLocally = dashboardPages('troupe.localhost', 'compute.troupe.localhost');
  for (const origin of [
    'http://troupe.localhost:3000',
    'http://app.troupe.localhost',
    'https://app.troupe.localhost:8443',
  ])
    assert.equal(mayLocally(origin), true, origin);
  assert.equal(mayLocally('http://abcdefghijk1.compute.troupe.localhost'), false);
  assert.equal(mayLocally('http://troupe.localhost.evil.test'), false);
});
