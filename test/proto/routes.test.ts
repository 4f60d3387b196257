import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  addressOf,
  newRouteSchema,
  pathOf,
  RouteTable,
  type StaticRoute,
  strippedTarget,
} from '../../proto/gateway/routes.ts';

let next = 1;
const route = (
  host: string,
  path_prefix: string,
  target = 'svc:80',
  priority = 0,
  strip_prefix = false,
): StaticRoute => ({
  ...{ id: next++, host, path_prefix, target, priority, strip_prefix },
});

describe('matching', () => {
  test('the highest priority comes first, and of equals the oldest', () => {
    const [low, high, first, second] = [
      route('a.test', '/', 'low:1', -5),
      route('a.test', '/', 'high:1', 9),
      route('a.test', '/x', 'first:1', 3),
      route('a.test', '/x', 'second:1', 3),
    ];
    const table = new RouteTable([low, second, first, high]);
    assert.equal(table.match('a.test', '/x')?.route, high);
    assert.equal(new RouteTable([second, low, first]).match('a.test', '/x/y')?.route, first);
    assert.equal(new RouteTable([second, low, first]).match('a.test', '/y')?.route, low);
    assert.deepEqual(
      table.routes.map(({ target }) => target),
      ['high:1', 'first:1', 'second:1', 'low:1'],
    );
    assert.ok(Object.isFrozen(table.routes));
  });

  test('the host is matched exactly, the path by its beginning', () => {
    const table = new RouteTable([route('a.test', '/api')]);
    for (const path of ['/api', '/api/', '/api/x', '/apix']) assert.ok(table.match('a.test', path), path);
    for (const path of ['/', '/ap', '/API', '/x/api', '']) assert.equal(table.match('a.test', path), undefined, path);
    for (const host of ['b.a.test', 'a.test.', 'atest', 'a.test:80', '', 'A.test'])
      assert.equal(table.match(host, '/api'), undefined, host);
    assert.deepEqual([table.hasHost('a.test'), table.hasHost('b.test')], [true, false]);
  });

  test('a prefix is taken away only where the route says so, and what is left is a path', () => {
    const strip = (prefix: string, target: string) => strippedTarget(route('a', prefix, 'x:1', 0, true), target);
    assert.equal(strip('/api', '/api/x?y=/api'), '/x?y=/api');
    assert.equal(strip('/api/', '/api/x'), '/x');
    assert.equal(strip('/api', '/api'), '/');
    assert.equal(strip('/api', '/api?q'), '/?q');
    assert.equal(strip('/', '/x'), '/x');
    assert.equal(strippedTarget(route('a', '/api'), '/api/x'), '/api/x');
  });

  test('any table gives what looking at all routes one by one gives', () => {
    const host = fc.constantFrom('a.test', 'b.test');
    const path = fc.constantFrom('/', '/a', '/a/b', '/ab', '/b');
    const routes = fc.array(fc.tuple(host, path, fc.integer({ min: -2, max: 2 })), { maxLength: 8 });
    fc.assert(
      fc.property(routes, host, path, (list, asked, at) => {
        const all = list.map(([name, prefix, priority]) => route(name, prefix, 'x:1', priority));
        const fitting = all.filter((one) => one.host === asked && at.startsWith(one.path_prefix));
        const best = fitting.sort((a, b) => b.priority - a.priority || (a.id ?? 0) - (b.id ?? 0))[0];
        assert.equal(new RouteTable(all).match(asked, at)?.route, best);
      }),
    );
  });
});

test('a route that is none is refused with what was expected', () => {
  const good = { host: 'a.test', path_prefix: '/', target: 'svc:80' };
  assert.deepEqual(newRouteSchema.parse({ ...good, host: 'A.Test' }), { ...good, strip_prefix: false, priority: 0 });
  for (const target of ['svc:80', '10.0.0.1:65535', '[2001:db8::1]:8080'])
    assert.ok(newRouteSchema.safeParse({ ...good, target }).success, target);
  for (const bad of [
    ...['', 'a b', 'http://a', 'a.test:80', '*.a.test', 'a..b', '-a', 'a'.repeat(300)].map((host) => ({ host })),
    ...['', 'x', '/a b', '/a?b', '/a#b', '/ä', `/${'x'.repeat(1024)}`].map((path_prefix) => ({ path_prefix })),
    ...['', 'svc', 'svc:', 'svc:0', 'svc:65536', 'svc:8x', 'http://svc:80', 'svc:80/', 'u@svc:80', '::1:80'].map(
      (target) => ({ target }),
    ),
    { priority: 1.5 },
    { strip_prefix: 'yes' },
  ])
    assert.equal(newRouteSchema.safeParse({ ...good, ...bad }).success, false, JSON.stringify(bad));
});

test('targets and paths are taken apart', () => {
  assert.deepEqual(addressOf('[2001:db8::1]:80'), { host: '2001:db8::1', port: 80 });
  assert.deepEqual(addressOf('svc:8080'), { host: 'svc', port: 8080 });
  assert.deepEqual([pathOf('/a?b?c'), pathOf('/a'), pathOf('/?')], ['/a', '/a', '/']);
});
