/** Several processes write down where their services are, in one table: each gateway goes to its own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Arrivals } from '../../actors/gateway/arrivals.ts';
import { startRoutes } from '../../actors/gateway/routes.ts';
import { Routing } from '../../actors/gateway/routing.ts';
import { computeNews, tellCompute } from '../../storage/compute/news.ts';
import { insertRoute, replaceManagedRoutes } from '../../storage/gateway/routes.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { silentLog, testDatabase } from '../kit/database.ts';
import { until } from '../kit/until.ts';

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
    const ports = { http: 80, https: 443 };
    const routing = new Routing({ fallback: undefined, ports, domain: 'x.test' });
    const ref = startRoutes(
      system,
      {
        ...{ db, log: silentLog, domain: 'x.test', fileRoutes: [], ownRoutes, fallback: undefined, ports },
        ...{ containers: async () => new Map(), computeNews: computeNews(db), metrics: async () => '' },
      },
      routing,
      new Arrivals(() => routing.picture),
    );
    await until(() => routing.isReady, { what: 'the routes are read' });
    stop(ref);
    await stopped(ref);
    const found = (routing.picture?.routes.routes ?? []).map(({ path_prefix, target }) => `${path_prefix} ${target}`);
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
  const ports = { http: 80, https: 443 };
  startRoutes(
    system,
    {
      ...{ db, log: silentLog, domain: 'x.test', fileRoutes: [], ownRoutes: [], fallback: undefined, ports },
      containers: async () => {
        looks++;
        return new Map();
      },
      ...{ computeNews: computeNews(db), metrics: async () => '' },
    },
    new Routing({ fallback: undefined, ports, domain: 'x.test' }),
    new Arrivals(() => undefined),
  );
  await until(() => looks > 0, { what: 'the first look' });
  for (let round = 0; round < 20; round++) {
    const before = looks;
    await db.tx((tx) => tellCompute(tx, { kind: round % 2 === 0 ? 'ingress' : 'gone', containerId: 'c' }));
    await until(() => looks > before, { timeoutMs: 60_000, what: 'a look after the news' });
  }
});
