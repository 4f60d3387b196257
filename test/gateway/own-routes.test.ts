/** Several processes write down where their services are, in one table: each gateway goes to its own. */

import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { Arrivals } from '../../actors/gateway/arrivals.ts';
import { startRoutes, tableRoutes } from '../../actors/gateway/routes.ts';
import { Routing } from '../../actors/gateway/routing.ts';
import { computeNews, tellCompute } from '../../storage/compute/news.ts';
import type { Db } from '../../storage/db.ts';
import {
  deleteRoute,
  insertRoute,
  listRoutes,
  replaceManagedRoutes,
  setNodeRoutes,
} from '../../storage/gateway/routes.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { testDatabase } from '../support/database/database.ts';
import { withoutGuards } from '../support/gateway/guards.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const NO_CONTAINERS = { list: async () => [], inspect: async () => undefined };
const gatewayToken = () => '';

const route = (path_prefix: string, target: string) => ({
  ...{ host: 'x.test', path_prefix, target, strip_prefix: false, priority: 0 },
});

test('a gateway prefers the services of its own process to those of another, and an operator’s routes to both', async (t) => {
  const { db, close } = await testDatabase();
  const system = start({ log: silentLog });
  t.after(async () => {
    stop(system);
    await stopped(system);
    await close();
  });
  await replaceManagedRoutes(db, [route('/api', '127.0.0.1:1'), route('/compute', '127.0.0.1:2')]);
  await insertRoute(db, route('/extra', '127.0.0.1:3'));
  const targets = async (ownRoutes?: ReturnType<typeof route>[]) => {
    const ports = { http: 80, https: 443, ssh: 2222 };
    const routing = new Routing({
      fallback: undefined,
      ports,
      domain: 'x.test',
      containersDomain: 'compute.x.test',
      gatewayToken,
    });
    const ref = startRoutes(
      system,
      {
        ...{
          db,
          log: silentLog,
          domain: 'x.test',
          containersDomain: 'compute.x.test',
          fileRoutes: [],
          ownRoutes,
          fallback: undefined,
        },
        ...{ engine: NO_CONTAINERS, gatewayToken, ...withoutGuards },
        ...{ computeNews: computeNews(db), metrics: async () => '' },
      },
      routing,
      new Arrivals(() => routing.snapshot),
    );
    await until(() => routing.isReady, { what: 'the routes are read' });
    stop(ref);
    await stopped(ref);
    const found = (routing.snapshot?.routes.routes ?? []).map(({ path_prefix, target }) => `${path_prefix} ${target}`);
    return found.sort();
  };
  const own = [route('/api', '127.0.0.1:11'), route('/compute', '127.0.0.1:12')];
  assert.deepEqual(await targets(own), ['/api 127.0.0.1:11', '/compute 127.0.0.1:12', '/extra 127.0.0.1:3']);
  assert.deepEqual(await targets(), ['/api 127.0.0.1:1', '/compute 127.0.0.1:2', '/extra 127.0.0.1:3']);

  // The table knows one route of each: an operator's takes the place of the platform's once that is written anew.
  await replaceManagedRoutes(db, []);
  await insertRoute(db, route('/api', '127.0.0.1:4'));
  assert.deepEqual(await targets(own), ['/api 127.0.0.1:4', '/compute 127.0.0.1:12', '/extra 127.0.0.1:3']);
});

test('a gateway that runs alone follows the processes that live and can be reached', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const node = (id: string, machine: string, more = 'false') =>
    db.run(
      `insert into placement_nodes (id, roles, version, address, expires_at, started_at, draining)
       values ($1, '{auth}', 'x', $2, now() + interval '1 hour', now() + $3 * interval '1 second', ${more})`,
      [id, `${machine}:1`, Number(id.at(-1))],
    );
  const first = async () => {
    const found = await tableRoutes({ db, ownRoutes: undefined });
    return found.filter(({ path_prefix }) => path_prefix === '/api').map(({ target }) => target);
  };
  await replaceManagedRoutes(db, [route('/api', '127.0.0.1:9')]);
  assert.deepEqual(await first(), ['127.0.0.1:9'], 'nobody lives: what was written down last stands');
  await node('node1', hostname());
  await node('node2', hostname());
  await node('node3', 'elsewhere');
  await setNodeRoutes(db, 'node1', [route('/api', '127.0.0.1:1')]);
  await setNodeRoutes(db, 'node2', [route('/api', '127.0.0.1:2')]);
  await setNodeRoutes(db, 'node3', [route('/api', '127.0.0.1:3')]);
  assert.deepEqual(await first(), ['127.0.0.1:1'], 'not of the one that started last');
  await db.run(`update placement_nodes set drain_asked = true where id = 'node1'`);
  assert.deepEqual(await first(), ['127.0.0.1:2']);
  await db.run(`update placement_nodes set expires_at = now() - interval '1 second' where id in ('node1', 'node2')`);
  assert.deepEqual(await first(), ['127.0.0.1:9'], 'loopback of another machine leads nowhere');
  await setNodeRoutes(db, 'node3', [route('/api', '10.0.0.3:3')]);
  assert.deepEqual(await first(), ['10.0.0.3:3']);
  await insertRoute(db, { ...route('/api', '10.0.0.9:9'), priority: 1 });
  assert.deepEqual(await first(), ['10.0.0.3:3', '10.0.0.9:9']);
});

test('the platform’s own routes keep their ids from start to start, and are not removed', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const ids = async () => (await listRoutes(db)).map(({ id, target }) => `${id} ${target}`);
  await replaceManagedRoutes(db, [route('/api', '127.0.0.1:1'), route('/compute', '127.0.0.1:2')]);
  const before = await ids();
  for (let start = 0; start < 3; start++)
    await replaceManagedRoutes(db, [route('/api', '127.0.0.1:1'), route('/compute', '127.0.0.1:2')]);
  assert.deepEqual(await ids(), before);
  await replaceManagedRoutes(db, [route('/api', '127.0.0.1:7'), route('/compute', '127.0.0.1:2')]);
  assert.deepEqual(await ids(), ['1 127.0.0.1:7', '2 127.0.0.1:2']);
  assert.equal(await deleteRoute(db, 1), 'managed');
  assert.equal(await deleteRoute(db, 99), undefined);
  assert.equal(await insertRoute(db, route('/api', '127.0.0.1:8')), undefined);
  const own = await insertRoute(db, route('/own', '127.0.0.1:8'));
  assert.deepEqual(await deleteRoute(db, own ?? 0), { ...route('/own', '127.0.0.1:8'), id: own, managed: false });
  assert.equal((await ids()).length, 2);
});

// Twenty looks by the clock alone would take 100 seconds.
test('a rule that was added or removed is looked at when it is told, not at the next turn of the clock', {
  timeout: 60_000,
}, async (t) => {
  const { db, close } = await testDatabase();
  const system = start({ log: silentLog });
  t.after(async () => {
    stop(system);
    await stopped(system);
    await close();
  });
  let looks = 0;
  const counting: Db = Object.create(db, {
    many: {
      value: (...question: Parameters<Db['many']>) => {
        if (question[1].includes('from static_routes')) looks++;
        return db.many(...question);
      },
    },
    listen: { value: (...question: Parameters<Db['listen']>) => db.listen(...question) },
  });
  const ports = { http: 80, https: 443, ssh: 2222 };
  startRoutes(
    system,
    {
      ...{
        db: counting,
        log: silentLog,
        domain: 'x.test',
        containersDomain: 'compute.x.test',
        fileRoutes: [],
        ownRoutes: [],
        fallback: undefined,
      },
      ...{ engine: NO_CONTAINERS, gatewayToken, ...withoutGuards },
      ...{ computeNews: computeNews(db), metrics: async () => '' },
    },
    new Routing({ fallback: undefined, ports, domain: 'x.test', containersDomain: 'compute.x.test', gatewayToken }),
    new Arrivals(() => undefined),
  );
  await until(() => looks > 0, { what: 'the first look' });
  for (let round = 0; round < 20; round++) {
    const before = looks;
    await db.tx((tx) => tellCompute(tx, { kind: round % 2 === 0 ? 'ingress' : 'gone', containerId: 'c' }));
    await until(() => looks > before, { timeoutMs: 60_000, what: 'a look after the news' });
  }
});
