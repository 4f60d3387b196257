/** What clients learn of the platform as a whole. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { changeLimits } from '../../actors/auth/users/limits.ts';
import { limitImages } from '../../actors/auth/users/users.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { platformFacts } from '../../cmd/node/platform-facts.ts';
import { showPlatform, showPlatformApi, showPlatformFacts } from '../../proto/auth/platform.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { Service } from '../../proto/endpoint.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { insertUser } from '../../storage/auth/users.ts';
import type { GatewayAddress } from '../../storage/gateway/gateway-address.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { call, someone } from '../support/service/calls.ts';

const health: Service['health'] = async () => ({ ok: true, problems: [] });
let database: TestDatabase;
const serviceWith = (env: Record<string, string>, gateway?: GatewayAddress, hasOwnRegistry = false): Service => ({
  name: 'auth',
  connect: async () => assert.fail(),
  health,
  ...platformFacts({
    db: database.db,
    environment: readEnvironment(env),
    domain: 'cloud.test',
    hasOwnRegistry,
    gatewayAddress: () => gateway,
  }),
});

const documentSchema = z.object({
  openapi: z.literal('3.1.0'),
  servers: z.array(z.object({ url: z.string() })),
  paths: z.record(z.string(), z.record(z.string(), z.looseObject({ operationId: z.string() }))),
  components: z.object({ schemas: z.record(z.string(), z.unknown()) }),
});

describe('clients learn', () => {
  before(async () => {
    database = await testDatabase();
  });
  after(() => database.close());

  test('anybody learns what it is; whoever is logged in, and every API token, what it offers', async () => {
    assert.deepEqual([showPlatform.access, showPlatformFacts.access], ['none', 'token']);
    const plain = serviceWith({});
    const who = await call(plain, showPlatform, undefined);
    assert.equal(who.name, 'troupe');
    assert.match(who.version, /^\d+\.\d+\.\d+/);
    const facts = await call(plain, showPlatformFacts, someone('ann'));
    assert.deepEqual([facts.ssh, facts.ports, facts.registry_host], [null, null, null]);
    assert.equal(facts.ingress_host, 'cloud.test');
    assert.equal(facts.limits.containers, 3);
    const full = await call(
      serviceWith(
        { REGISTRY_HOST: 'images.cloud.test', INGRESS_HOST: 'in.cloud.test' },
        { ssh: { host: 'cloud.test', port: 22 }, ports: { http: 80, https: 443 } },
      ),
      showPlatformFacts,
      someone('ann'),
    );
    assert.deepEqual(
      [full.registry_host, full.ingress_host, full.ssh, full.ports],
      ['images.cloud.test', 'in.cloud.test', { host: 'cloud.test', port: 22 }, { http: 80, https: 443 }],
    );
  });

  test('what images may hold is told where the platform runs the registry, and limits it', async () => {
    const told = async (env: Record<string, string>, hasOwnRegistry: boolean) =>
      (await call(serviceWith(env, undefined, hasOwnRegistry), showPlatformFacts, someone('ann'))).limits.images_mb;
    assert.equal(await told({}, true), 20_480);
    assert.equal(await told({ REGISTRY_USER_MB: '5' }, true), 5);
    assert.equal(await told({ REGISTRY_USER_MB: '0' }, true), undefined);
    assert.equal(await told({}, false), undefined);
  });

  test('limits are those of the user who asks: as set for that one, else for all', async () => {
    const ann = someone('ann');
    assert.ok(await insertUser(database.db, { id: ann.userId, username: 'ann', passwordHash: '' }));
    await changeLimits(database.db, 'ann', { containers: 10 });
    await limitImages(database.db, 'ann', 0, 'admin');
    const service = serviceWith({ CONTAINERS_PER_USER: '4', TERMINALS_PER_USER: '30' }, undefined, true);
    const told = async (who: string, caller = someone(who)) => {
      const { containers, ssh_keys, terminals, images_mb } = (await call(service, showPlatformFacts, caller)).limits;
      return [containers, ssh_keys, terminals, images_mb];
    };
    assert.deepEqual(await told('ann', ann), [10, 10, 30, 0]);
    assert.deepEqual(await told('bob'), [4, 10, 30, 20_480]);
    assert.deepEqual(await told('admin'), [4, 10, 30, undefined]);
    for (const wrong of ['-1', '1001', 'x', '1.5'])
      assert.throws(() => readEnvironment({ CONTAINERS_PER_USER: wrong }), /CONTAINERS_PER_USER: must be 0 to 1000/);
  });

  test('one document has the endpoints of all services, and a name for each body and reply', async () => {
    const document = documentSchema.parse(await call(serviceWith({}), showPlatformApi, undefined));
    assert.deepEqual(document.servers, [{ url: '/' }]);
    const ids = Object.values(document.paths).flatMap((item) =>
      Object.values(item).map(({ operationId }) => operationId),
    );
    assert.equal(new Set(ids).size, ids.length);
    for (const { name, path, method } of [...computeEndpoints, ...networkEndpoints, showPlatform])
      assert.ok(document.paths[path]?.[method.toLowerCase()] !== undefined, name);

    const { schemas } = document.components;
    const used = new Set(
      [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name),
    );
    assert.deepEqual([...used].sort(), Object.keys(schemas).sort());
    const create = JSON.stringify(document.paths['/compute/containers']?.post);
    assert.match(create, /"#\/components\/schemas\/CreateContainerBody"/);
    // What several operations answer has one name.
    assert.doesNotMatch(Object.keys(schemas).join(' '), /StartContainerReply.*StopContainerReply/);
    assert.match(JSON.stringify(document.paths['/api/domains']?.post), /text\/plain/);
  });
});
