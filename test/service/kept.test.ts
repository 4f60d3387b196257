/** What endpoints make, and the answer that is kept under a request's key, are there together or not at all. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { z } from 'zod';
import { addUser } from '../../actors/auth/users/users.ts';
import { platformOperations } from '../../cmd/node/platform-operations.ts';
import { adminAddRoute, adminAddUser, adminListUsers, platformEndpoints } from '../../proto/auth/admin.ts';
import {
  createServiceAccount,
  createServiceAccountToken,
  createToken,
  listServiceAccounts,
  listTokens,
} from '../../proto/auth/api-tokens.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import {
  computeEndpoints,
  createContainer,
  createSshKey,
  startContainer,
  stopContainer,
} from '../../proto/compute/endpoints.ts';
import { adminStopContainer } from '../../proto/compute/images.ts';
import { addIngress, listIngress } from '../../proto/compute/settings.ts';
import type { AnyEndpoint, Caller, Service } from '../../proto/endpoint.ts';
import type { AnswerPlace, KeptAnswers } from '../../proto/kept-answers.ts';
import { connectDomain, createMapping, networkEndpoints } from '../../proto/network/endpoints.ts';
import { notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { addWebhook } from '../../proto/notify/webhooks.ts';
import { insertUser } from '../../storage/auth/users.ts';
import type { Db, Queries } from '../../storage/db.ts';
import { listRoutes } from '../../storage/gateway/routes.ts';
import { keptAnswers } from '../../storage/idempotency.ts';
import { webhooksOf } from '../../storage/notify/webhooks.ts';
import { parseSealKey } from '../../storage/seal.ts';
import { webhookSender } from '../../transports/clients/webhooks/sender.ts';
import { parseNetworks } from '../../transports/clients/webhooks/targets.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { openAuth, PASSWORD } from '../support/service/auth.ts';
import { callFrom, type Input, refused, someone } from '../support/service/calls.ts';
import { openCompute } from '../support/service/compute.ts';
import { openNetwork } from '../support/service/network.ts';
import { SECRET } from '../support/service/node.ts';
import { openNotify } from '../support/service/notify.ts';
import { publicKey } from '../support/ssh/public-key.ts';

failOnLeaks();

interface Keyed {
  readonly service: Pick<Service, 'call'>;
  readonly kept: KeptAnswers;
  readonly db: Queries;
}

async function begun(kept: KeptAnswers, endpoint: AnyEndpoint, { userId }: Caller, key: string): Promise<AnswerPlace> {
  const state = await kept.begin({ userId, endpoint: endpoint.name, key, content: 'the same' });
  assert.ok(state.kind === 'first', state.kind);
  return state.place;
}

/** All processes that answer died, as the rows have it. */
const die = (db: Queries) => db.run("update idempotency_keys set running_until = now() - interval '1 second'");

/**
 * Calls an endpoint as a process does that dies once the service has answered. The next request gets that answer.
 * Resolves with it.
 */
async function callAndDie({ service, kept, db }: Keyed, endpoint: AnyEndpoint, caller: Caller, input: Input) {
  const key = randomUUID();
  const place = await begun(kept, endpoint, caller, key);
  const reply = await service.call(endpoint, { ...callFrom(endpoint, caller, input), place });
  await die(db);
  const next = await kept.begin({ userId: caller.userId, endpoint: endpoint.name, key, content: 'the same' });
  assert.deepEqual(next, { kind: 'answered', answer: { value: JSON.parse(JSON.stringify(reply)) } }, endpoint.name);
  return z.looseObject({}).parse(reply);
}

/** Calls an endpoint as a process does that was taken for dead: another has begun the request again. */
async function callTooLate({ service, kept, db }: Keyed, endpoint: AnyEndpoint, caller: Caller, input: Input) {
  const key = randomUUID();
  const place = await begun(kept, endpoint, caller, key);
  await die(db);
  const second = await begun(kept, endpoint, caller, key);
  assert.notEqual(second.claim, place.claim);
  await refused('unavailable', service.call(endpoint, { ...callFrom(endpoint, caller, input), place }));
  await kept.release(place);
  await service.call(endpoint, { ...callFrom(endpoint, caller, input), place: second });
}

const tested = new Set<AnyEndpoint>();
const ENDPOINTS: readonly AnyEndpoint[] = [
  ...authEndpoints,
  ...platformEndpoints,
  ...computeEndpoints,
  ...networkEndpoints,
  ...notifyEndpoints,
];

test('the authentication service keeps answers with what it makes, and makes nothing too late', async (t) => {
  const auth = await openAuth(t);
  await addUser(auth.outside, 'admin', PASSWORD);
  const [ann, admin] = [await auth.enter('ann'), await auth.enter('admin')];
  const keyed = { service: auth.service, kept: auth.kept, db: auth.outside };
  const scopes = { [`compute.${ann.userId}.containers`]: ['read'] };
  const account = await callAndDie(keyed, createServiceAccount, ann, { body: { name: 'robot', scopes } });
  const token = await callAndDie(keyed, createToken, ann, { body: { name: 'ci', scopes } });
  assert.match(String(token.token), /^svc_/);
  const params = { id: String(account.id) };
  await callAndDie(keyed, createServiceAccountToken, ann, { params, body: { name: 'ci' } });
  const cid = await callAndDie(keyed, adminAddUser, admin, { body: { username: 'cid' } });
  assert.equal((await auth.enter('cid', String(cid.password))).username, 'cid');

  await callTooLate(keyed, createServiceAccount, ann, { body: { name: 'once', scopes } });
  await callTooLate(keyed, createToken, ann, { body: { name: 'once', scopes } });
  await callTooLate(keyed, adminAddUser, admin, { body: { username: 'dan' } });
  const accounts = await auth.call(listServiceAccounts, ann);
  assert.deepEqual(accounts.map(({ name }) => name).sort(), ['once', 'robot']);
  const tokens = await auth.call(listTokens, ann);
  assert.equal(tokens.filter(({ name }) => name === 'once').length, 1);
  assert.ok((await auth.call(adminListUsers, admin)).some(({ username }) => username === 'dan'));

  const operations = { ...keyed, service: platformOperations(auth.outside) };
  const route = { host: 'a.example.com', path_prefix: '/', target: '127.0.0.1:9' };
  await callAndDie(operations, adminAddRoute, admin, { body: route });
  await callTooLate(operations, adminAddRoute, admin, { body: { ...route, path_prefix: '/b' } });
  assert.equal((await listRoutes(auth.outside)).length, 2);
  for (const one of [createToken, createServiceAccount, createServiceAccountToken, adminAddUser, adminAddRoute])
    tested.add(one);
});

test('the compute service keeps answers with what it makes, and makes nothing too late', async (t) => {
  const compute = await openCompute(t);
  const [ann, admin] = [someone(), { ...someone('admin'), isAdmin: true }];
  for (const { userId: id, username } of [ann, admin])
    assert.ok(await insertUser(compute.database.db, { id, username, passwordHash: 'none' }));
  const db: Db = compute.database.db;
  const keyed = { service: compute.service, kept: keptAnswers(db, SECRET), db };
  const key = await callAndDie(keyed, createSshKey, ann, { body: { name: 'laptop', public_key: publicKey() } });
  const body = { name: 'box', ssh_key_ids: [Number(key.id)] };
  const { id } = await callAndDie(keyed, createContainer, ann, { body });
  const params = { id: String(id) };
  await compute.reaches(ann, params.id, 'running');
  await callAndDie(keyed, addIngress, ann, { params, body: { port: 80 } });
  await callTooLate(keyed, addIngress, ann, { params, body: { port: 443 } });
  assert.equal((await compute.on(listIngress, ann, params.id)).rules.length, 2);
  await callAndDie(keyed, stopContainer, ann, { params });
  await compute.reaches(ann, params.id, 'stopped');
  await callAndDie(keyed, startContainer, ann, { params });
  await compute.reaches(ann, params.id, 'running');
  await callAndDie(keyed, adminStopContainer, admin, { params });
  await callTooLate(keyed, createContainer, ann, { body });
  assert.equal((await compute.list(ann)).length, 2);
  for (const one of [createContainer, createSshKey, addIngress, startContainer, stopContainer, adminStopContainer])
    tested.add(one);
});

test('the networking API keeps answers with what it makes', async (t) => {
  // Its process dies before it can say what was answered.
  const kept = (own: KeptAnswers): KeptAnswers => ({ ...own, finish: async () => {} });
  const network = await openNetwork(t, { kept });
  const ann = await network.person();
  const container_id = await network.container(ann);
  const twice = async (path: string, body: object) => {
    const headers = { 'idempotency-key': randomUUID() };
    const first = await network.call(ann.token, 'POST', path, body, headers);
    assert.equal(first.status, 201, first.text);
    const running = await network.call(ann.token, 'POST', path, body, headers);
    assert.deepEqual([running.status, running.headers.get('retry-after')], [409, '2']);
    await die(network.db);
    const second = await network.call(ann.token, 'POST', path, body, headers);
    assert.deepEqual([second.status, second.json.id], [201, first.json.id]);
    assert.equal(second.headers.get('idempotency-replayed'), 'true');
    assert.equal(first.headers.get('idempotency-replayed'), null);
  };
  await twice('/api/domain-mappings', { domain: 'www.example.org', container_id, target_port: 80 });
  network.provider.zones.set('good', [{ id: 'z1', name: 'example.com', status: 'active' }]);
  await twice('/api/domains', { token: 'good' });
  for (const one of [connectDomain, createMapping]) tested.add(one);
});

test('the notification service keeps the answer with the webhook and its secret, and makes nothing too late', async (t) => {
  const receiver = await startReceiver(t);
  const notify = await openNotify(t, {
    deliveries: {
      sealKey: parseSealKey('33'.repeat(32)),
      sender: webhookSender({ allowed: parseNetworks('127.0.0.0/8') ?? assert.fail() }),
      mailer: undefined,
    },
  });
  const { id: userId } = await notify.person('ann');
  const ann = { ...someone('ann'), userId };
  const db: Db = notify.db;
  const keyed = { service: notify.service, kept: keptAnswers(db, SECRET), db };
  const webhook = await callAndDie(keyed, addWebhook, ann, { body: { url: receiver.url, categories: [] } });
  assert.match(String(webhook.secret), /^whsec_/);
  await callTooLate(keyed, addWebhook, ann, { body: { url: `${receiver.url}/second`, categories: [] } });
  assert.equal((await webhooksOf(db, userId)).length, 2);
  tested.add(addWebhook);
});

test('every endpoint that takes a key was tried', () => {
  const taking = ENDPOINTS.filter(({ idempotent }) => idempotent === 'key');
  assert.deepEqual([...tested].map(({ name }) => name).sort(), taking.map(({ name }) => name).sort());
});
