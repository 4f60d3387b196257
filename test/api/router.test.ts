import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import { router, UPGRADE } from '../../transports/api/router.ts';

const find = router([...authEndpoints, ...computeEndpoints]);
const nameOf = (method: string, path: string) => {
  const match = find(method, path);
  return match !== undefined && 'endpoint' in match ? match.endpoint.name : match;
};

test('every endpoint is found at its method and path', () => {
  for (const endpoint of [...authEndpoints, ...computeEndpoints]) {
    const method = endpoint.socket ? UPGRADE : endpoint.method;
    assert.equal(nameOf(method, endpoint.path.replaceAll(/\{.*?\}/g, 'x1')), endpoint.name);
  }
});

test('parameters are decoded, HEAD is a GET', () => {
  assert.deepEqual(find('GET', '/compute/containers/a%20b'), {
    endpoint: computeEndpoints.find((endpoint) => endpoint.name === 'getContainer'),
    params: { id: 'a b' },
  });
  assert.equal(nameOf('HEAD', '/api/session'), 'session');
});

test('a path may have a socket and what answers a GET; a GET finds a socket only where nothing else answers', () => {
  const log = '/compute/containers/x1/logs';
  assert.deepEqual([nameOf(UPGRADE, log), nameOf('GET', log), nameOf('HEAD', log)], ['logs', 'readLogs', 'readLogs']);
  assert.deepEqual(nameOf('POST', log), { allow: ['GET'] });
  const terminal = '/compute/containers/x1/terminal';
  assert.deepEqual([nameOf(UPGRADE, terminal), nameOf('GET', terminal)], ['terminal', 'terminal']);
  assert.deepEqual(nameOf(UPGRADE, '/compute/containers/x1'), { allow: ['GET', 'PATCH', 'DELETE'] });
});

test('a known path with another method names the methods it answers', () => {
  assert.deepEqual(find('PATCH', '/compute/containers'), { allow: ['GET', 'POST'] });
  assert.deepEqual(find('POST', '/compute/containers/c1'), { allow: ['GET', 'PATCH', 'DELETE'] });
});

test('what is no path of ours is not found', () => {
  for (const path of [
    '/',
    '',
    '/api',
    '/api/session/',
    '/compute/containers/',
    '/compute//containers',
    '/compute/containers/%ff',
    '/compute/containers/a/b/c',
  ]) {
    assert.equal(find('GET', path), undefined, path);
  }
});

test('two endpoints at one place are refused when the table is made', () => {
  assert.throws(() => router([...authEndpoints, ...authEndpoints]), /two endpoints answer POST \/api\/login/);
});
