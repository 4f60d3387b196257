import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOwnPage } from '../../transports/api/cors.ts';

test('own pages are those of the domain and its subdomains; programs have no origin', () => {
  const domain = 'Cloud.test';
  for (const origin of [
    undefined,
    'https://cloud.test',
    'http://cloud.test:8080',
    'https://a.b.cloud.test',
    'https://A.CLOUD.TEST.',
  ])
    assert.equal(isOwnPage(origin, domain), true, origin);
  for (const origin of [
    '',
    'null',
    'cloud.test',
    'https://xcloud.test',
    'https://cloud.test.x',
    'https://cloud.test@x',
    'ws://cloud.test',
    'https://',
    'https://[::1]',
  ])
    assert.equal(isOwnPage(origin, domain), false, origin);
  assert.equal(isOwnPage('https://cloud.test', undefined), false);
  assert.equal(isOwnPage(undefined, undefined), true);
});
