/** A change of `cache` reaches the gateway at once, and what was kept before it is given to nobody after it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recachedOrigins } from '../../actors/gateway/cache-changes.ts';
import type { RouteSnapshot } from '../../actors/gateway/routing.ts';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import { RouteTable } from '../../proto/gateway/routes.ts';
import { setRuleCache } from '../../storage/compute/ingress.ts';
import { tellCompute } from '../../storage/compute/news.ts';
import { deleteRoute, insertRoute, listRoutes } from '../../storage/gateway/routes.ts';
import { testDatabase } from '../support/database/database.ts';
import { addContainer, runningState } from '../support/gateway/containers.ts';
import { startGateway } from '../support/gateway/gateway.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const CONTAINER = 'abcdefghijk1';

test('the rule of a port decides, and with each change what was kept is forgotten', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  let count = 0;
  const origin = await httpOrigin(t, (_, response) => response.end(`answer ${count++}`));
  await addContainer(db, CONTAINER, { ports: [[80, origin]] });
  const state = runningState(CONTAINER);
  const engine = { list: async () => [state], inspect: async () => state, dial: () => Promise.reject(new Error('no')) };
  const { ports } = await startGateway(t, { db, isCaching: true, engine });
  const ask = async () => {
    const head = `GET / HTTP/1.1\r\nHost: ${CONTAINER}.compute.cloud.test\r\nConnection: close\r\n\r\n`;
    const text = await exchange(ports.http, head);
    return { status: /Cache-Status: ([^\r]*)/.exec(text)?.[1], body: text.split('\r\n\r\n')[1] };
  };
  const set = (cache: CacheMode) =>
    db.tx(async (tx) => {
      await setRuleCache(tx, CONTAINER, 80, cache);
      await tellCompute(tx, { kind: 'ingress', containerId: CONTAINER });
    });
  const becomes = (pattern: RegExp) =>
    until(async () => pattern.test(String((await ask()).status)), { what: `a Cache-Status like ${pattern}` });

  const first = await ask();
  assert.match((await ask()).status ?? '', /; hit; /);
  await set('off');
  await becomes(/^undefined$/);
  const before = (await ask()).body;
  assert.notEqual(before, first.body);
  await set('default');
  await becomes(/fwd=miss; stored|hit/);
  assert.notEqual((await ask()).body, first.body);
  await set('explicit');
  await becomes(/does not say how long/);
});

test('origins are found whose answers are kept in another way: of ports, hostnames and routes', () => {
  const route = { host: 'a.test', path_prefix: '/', strip_prefix: false, priority: 0 };
  const snapshot = (port?: CacheMode, hostname?: CacheMode, ofRoute?: CacheMode): RouteSnapshot => ({
    routes: new RouteTable([
      { ...route, target: '192.0.2.9:80', ...(ofRoute === undefined ? {} : { cache: ofRoute }) },
      { ...route, path_prefix: '/other', target: '192.0.2.8:80' },
    ]),
    containers: new Map([
      ['c1', { address: '192.0.2.1', ports: new Map(), ...(port && { caches: new Map([[80, port]]) }) }],
      ['c2', { address: '192.0.2.2', ports: new Map() }],
    ]),
    mapped: new Map([['b.test', { containerId: 'c2', targetPort: 80, ...(hostname && { cache: hostname }) }]]),
  });
  const changed = (before: RouteSnapshot | undefined, now: RouteSnapshot) => [...recachedOrigins(before, now)];
  assert.deepEqual(changed(undefined, snapshot('off', 'off', 'off')), []);
  assert.deepEqual(changed(snapshot(), snapshot()), []);
  assert.deepEqual(changed(snapshot(), snapshot('explicit')), ['192.0.2.1']);
  assert.deepEqual(changed(snapshot('explicit'), snapshot('off')), ['192.0.2.1']);
  assert.deepEqual(changed(snapshot(), snapshot(undefined, 'off')), ['192.0.2.2']);
  assert.deepEqual(changed(snapshot(undefined, undefined, 'off'), snapshot()), ['192.0.2.9']);
});

test('a static route has it too, and is shown without it where it is the default', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const route = { host: 'a.test', path_prefix: '/', target: 'b:80', strip_prefix: false, priority: 0 };
  await insertRoute(db, { ...route, cache: 'explicit' });
  await insertRoute(db, { ...route, path_prefix: '/x', cache: 'default' });
  const routes = await listRoutes(db);
  const { id, ...first } = routes[0] ?? {};
  assert.deepEqual(first, { ...route, managed: false, cache: 'explicit' });
  assert.ok(routes[1] !== undefined && !('cache' in routes[1]));
  const removed = await db.tx((tx) => deleteRoute(tx, id ?? 0));
  assert.ok(typeof removed === 'object' && removed.cache === 'explicit');
});
