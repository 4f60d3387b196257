/** What the administrator does with nodes and routes over HTTP's endpoints. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { platformOperations } from '../../cmd/node/platform-operations.ts';
import {
  adminAddRoute,
  adminDeleteRoute,
  adminDrainNode,
  adminListRoutes,
  adminNodes,
  adminUndrainNode,
  platformEndpoints,
} from '../../proto/auth/admin.ts';
import type { Endpoint, Service } from '../../proto/endpoint.ts';
import { readAudit } from '../../storage/audit.ts';
import { replaceManagedRoutes } from '../../storage/gateway/routes.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth } from '../support/service/auth.ts';
import { call, type Input, refused, someone } from '../support/service/calls.ts';

failOnLeaks();

async function openOperations(t: Parameters<typeof openAuth>[0]) {
  const { db } = await openAuth(t);
  const health: Service['health'] = async () => ({ ok: true, problems: [] });
  const service: Service = { name: 'auth', ...platformOperations(db), connect: async () => assert.fail(), health };
  const admin = { ...someone('admin'), isAdmin: true };
  return { db, admin, ask: <E extends Endpoint>(endpoint: E, input?: Input) => call(service, endpoint, admin, input) };
}

test('all of it is for the login of the administrator alone', () => {
  for (const { access, path } of platformEndpoints) assert.equal(access, 'admin', path);
});

test('nodes are listed; the only one of its roles is drained by force alone, and takes its share again', async (t) => {
  const { db, admin, ask } = await openOperations(t);
  const { nodes } = await ask(adminNodes);
  const [node] = nodes;
  assert.ok(node);
  assert.deepEqual([nodes.length, node.state], [1, 'serving']);
  const params = { id: node.id };
  const refusal = await refused('conflict', ask(adminDrainNode, { params }));
  assert.match(refusal.message, /Nobody else serves auth/);
  const drained = await ask(adminDrainNode, { params, query: { force: 'true' } });
  assert.ok(drained.state === 'draining' || drained.state === 'drained', drained.state);
  await ask(adminUndrainNode, { params });
  assert.equal((await ask(adminNodes)).nodes[0]?.state, 'serving');
  await refused('not_found', ask(adminDrainNode, { params: { id: 'nowhere' } }));
  const trail = await readAudit(db, { action: 'node', limit: 10 });
  assert.deepEqual(
    trail.map(({ action, username, target }) => [action, username, target]),
    [
      ['node.drain', admin.username, node.id],
      ['node.undrain', admin.username, node.id],
    ],
  );
});

test('routes are added, listed and removed; those of the platform stay', async (t) => {
  const { db, ask } = await openOperations(t);
  const body = { host: 'app.troupe.test', path_prefix: '/', target: '127.0.0.1:3000' };
  const added = await ask(adminAddRoute, { body });
  assert.deepEqual([added.host, added.target, added.managed], [body.host, body.target, false]);
  await refused('conflict', ask(adminAddRoute, { body }));
  await refused('invalid_request', (async () => ask(adminAddRoute, { body: { ...body, target: 'nowhere' } }))());
  await replaceManagedRoutes(db, [{ ...body, host: 'auth.troupe.test', strip_prefix: false, priority: 0 }]);
  const routes = await ask(adminListRoutes);
  assert.deepEqual(routes.map(({ managed }) => managed).sort(), [false, true]);
  const own = routes.find(({ managed }) => managed);
  await refused('conflict', ask(adminDeleteRoute, { params: { id: String(own?.id) } }));
  await ask(adminDeleteRoute, { params: { id: String(added.id) } });
  await refused('not_found', ask(adminDeleteRoute, { params: { id: String(added.id) } }));
  assert.deepEqual(await ask(adminListRoutes), [own]);
  const trail = await readAudit(db, { action: 'route', limit: 10 });
  assert.deepEqual(
    trail.map(({ action }) => action),
    ['route.add', 'route.remove'],
  );
});
