/** A readable address through the real platform over TLS: a stranger, a narrow token, and a removed user. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBox } from '../support/clients/container.ts';
import { logIn, request, troupe } from '../support/cluster/platform.ts';
import { PAGE, servedContainer } from '../support/cluster/served-container.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the password of a test';

test('a name leads to its container over TLS, and stays the user’s when it is given up', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const { platform, data, token, id, config, ask } = await servedContainer(t);
  const { urls, domain } = platform.ready;
  const added = await troupe(['users', 'add', 'bob', '--data', data], { input: `${PASSWORD}\n` });
  assert.equal(added.code, 0, added.stderr);
  const bob = await logIn(urls.auth, 'bob', PASSWORD);
  const bobs = await startBox(urls.compute, bob, data);
  const containers = `${urls.compute}/compute/containers`;
  const name = (of: string, address_name: string | null, who = token) =>
    request('PATCH', `${containers}/${of}`, { token: who, body: { address_name } });

  const shop = `shop.compute.${domain}`;
  await assert.rejects(ask(shop), /unrecognized.name/i);
  const named = await troupe(['update', id, '--address', 'shop'], { env: config });
  assert.match(named.stdout + named.stderr, /the address \(shop\.compute\./);
  await until(async () => (await ask(shop).catch(() => '')) === PAGE, { what: 'the page', timeoutMs: 60_000 });
  assert.equal(await ask(`${id}.compute.${domain}`), PAGE);
  const opened = await troupe(['open', id], { env: config });
  assert.match(opened.stdout, new RegExp(`^https://${shop}(:\\d+)?/\\n$`));

  // A stranger, and a token that may read only.
  const taken = await name(bobs.id, 'shop', bob);
  assert.deepEqual([taken.status, taken.json.error], [409, 'The address "shop" is taken: choose another.']);
  assert.equal((await name(id, 'mine-now', bob)).status, 404);
  const scopes = [`compute.containers.${id}:read`];
  const made = await troupe(['api-token', 'create', 'narrow', '--scope', ...scopes, '--json'], { env: config });
  const narrow = /svc_[\w.-]+/.exec(made.stdout)?.[0] ?? '';
  assert.notEqual(narrow, '', made.stdout + made.stderr);
  assert.equal((await name(id, 'narrow-one', narrow)).status, 403);

  // Who lists names sees their own, and a token for one container none.
  const list = (who: string) => request('GET', `${urls.compute}/compute/address-names`, { token: who });
  assert.deepEqual((await list(token)).json.address_names, [{ name: 'shop', container_id: id }]);
  assert.deepEqual((await list(bob)).json.address_names, []);
  assert.equal((await list(narrow)).status, 403);
  assert.equal((await list('svc_nobody')).status, 401);

  // Its user is removed: the name is nobody else's yet.
  assert.equal((await name(bobs.id, 'bobs-page', bob)).status, 200);
  const removed = await troupe(['users', 'remove', 'bob', '--yes', '--data', data]);
  assert.equal(removed.code, 0, removed.stderr);
  const reserved = await name(id, 'bobs-page');
  assert.equal(reserved.status, 409);
  assert.match(String(reserved.json.error), /^The address "bobs-page" was given up lately, and is reserved until 20/);
  assert.ok(!JSON.stringify(reserved.json).includes('bob"'));
});
