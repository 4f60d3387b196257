/** Readable names of containers: which may be had, by whom, and for how long one that was given up is reserved. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_RESERVED_NAMES, RESERVED_DAYS } from '../../proto/compute/address-names.ts';
import { createContainer, deleteContainer } from '../../proto/compute/endpoints.ts';
import { listAddressNames } from '../../proto/compute/name-listing.ts';
import { addIngress, enterIngress, updateContainer } from '../../proto/compute/settings.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { readAudit } from '../../storage/audit.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const DAY_MS = 24 * 3_600_000;

const give = (compute: ComputeUnderTest, id: string, address_name: string | null, who = ann) =>
  compute.call(updateContainer, who, { params: { id }, body: { address_name } });

test('a name is given at creation, changed and taken away without a restart, and shown', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann, { address_name: 'shop' });
  const { started_at, hostname, address_name } = await compute.view(ann, id);
  assert.deepEqual([hostname, address_name], [`${id}.compute.cloud.test`, 'shop']);
  assert.equal((await give(compute, id, 'store')).address_name, 'store');
  assert.equal((await give(compute, id, 'store')).address_name, 'store');
  const [entry] = await readAudit(compute.db, { action: 'container.update', limit: 10 });
  assert.deepEqual(entry?.detail, { address_name: { before: 'shop', after: 'store' }, restarted: false });
  assert.ok(!('address_name' in (await give(compute, id, null))));
  assert.equal((await compute.view(ann, id)).started_at, started_at);
  const [made] = await readAudit(compute.db, { action: 'container.create', limit: 10 });
  assert.equal(made?.detail?.address_name, 'shop');
});

test('what is no label, looks like an id, or is a name of the platform is refused with what to do', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  const body = { name: 'late', ssh_key_ids: [await compute.key(ann)] };
  for (const [name, message] of [
    ['ab', /3 to 40 characters/],
    ['a'.repeat(41), /3 to 40 characters/],
    ['Shop', /3 to 40 characters/],
    ['-shop', /neither the first nor the last/],
    ['shop-', /neither the first nor the last/],
    ['a.shop', /3 to 40 characters/],
    ['shöp', /3 to 40 characters/],
    ['', /3 to 40 characters/],
    ['xn--shp-fka', /must not have "--" after its second character/],
    ['aaaaaaaaaaa1', /must not look like the id of a container/],
    ...['www', 'api', 'console', 'registry', 'admin', 'login', 'mail', 'compute', 'ssh', 'auth', 'support'].map(
      (each) => [each, /the platform keeps for itself: choose another/] as const,
    ),
  ] as const)
    for (const work of [
      () => give(compute, id, name),
      () => compute.call(createContainer, ann, { body: { ...body, address_name: name } }),
    ]) {
      const { fields } = await refused('invalid_request', (async () => work())());
      const found = fields?.find(({ path }) => path === 'address_name');
      assert.match(found?.message ?? JSON.stringify(fields), message, name);
    }
  for (const name of ['abc', 'a1-b2', '123', 'a'.repeat(40), 'shop1shop2shop3'])
    assert.equal((await give(compute, id, name)).address_name, name);
});

test('a name is one container’s: strangers are told no more, its owner where it is', async (t) => {
  const compute = await openCompute(t);
  const [own, second, foreign] = [await compute.create(ann), await compute.create(ann), await compute.create(bob)];
  await give(compute, own, 'shop');
  const stranger = await refused('conflict', give(compute, foreign, 'shop', bob));
  assert.equal(stranger.message, 'The address "shop" is taken: choose another.');
  const owner = await refused('conflict', give(compute, second, 'shop'));
  assert.match(owner.message, new RegExp(`your container box \\(${own}\\): .*\`troupe update ${own} --address none\``));
  // A token of the other container alone learns nothing of this one.
  const scopes = { [`compute.${ann.userId}.containers.${second}`]: ['update'] };
  const narrow: Caller = { ...ann, kind: 'api_token', scopes };
  const told = await refused('conflict', give(compute, second, 'shop', narrow));
  assert.equal(told.message, stranger.message);
  await refused('not_found', give(compute, own, 'mine-now', bob));
  await refused('not_found', give(compute, own, null, bob));
  assert.equal((await compute.view(ann, own)).address_name, 'shop');
  const body = { name: 'late', ssh_key_ids: [await compute.key(bob)], address_name: 'shop' };
  await refused('conflict', compute.call(createContainer, bob, { body }));
});

test('of two who ask at once one gets it', async (t) => {
  const compute = await openCompute(t);
  const [own, foreign] = [await compute.create(ann), await compute.create(bob)];
  for (const name of ['one', 'two', 'three', 'four', 'five']) {
    const results = await Promise.allSettled([give(compute, own, name), give(compute, foreign, name, bob)]);
    const won = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.address_name] : []));
    assert.deepEqual(won, [name]);
    const lost = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : []));
    assert.deepEqual(lost, ['conflict']);
  }
  // Two who want each other's wait for nobody.
  await give(compute, own, 'mine');
  await give(compute, foreign, 'yours', bob);
  const swapped = await Promise.allSettled([give(compute, own, 'yours'), give(compute, foreign, 'mine', bob)]);
  assert.deepEqual(
    swapped.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
});

test('a name that was given up is its former owner’s for 90 days, and anybody’s after them', async (t) => {
  const compute = await openCompute(t);
  const [own, second, foreign] = [await compute.create(ann), await compute.create(ann), await compute.create(bob)];
  await give(compute, own, 'shop');
  await give(compute, own, null);
  // Another container of the same user, at once.
  assert.equal((await give(compute, second, 'shop')).address_name, 'shop');
  await compute.on(deleteContainer, ann, second);
  const day = new Date(compute.clock.now() + (RESERVED_DAYS + 1) * DAY_MS).toISOString().slice(0, 10);
  const { message } = await refused('conflict', give(compute, foreign, 'shop', bob));
  const expected = `The address "shop" was given up lately, and is reserved until ${day}: choose another, or try again then.`;
  assert.equal(message, expected);
  assert.ok(!message.includes(ann.userId) && !message.includes(ann.username));
  compute.clock.advance((RESERVED_DAYS - 1) * DAY_MS);
  await refused('conflict', give(compute, foreign, 'shop', bob));
  compute.clock.advance(DAY_MS + 1);
  assert.equal((await give(compute, foreign, 'shop', bob)).address_name, 'shop');
  await refused('conflict', give(compute, own, 'shop'));
});

test('a token takes a name that its user gave up only if it may change all containers', async (t) => {
  const compute = await openCompute(t);
  const [own, second] = [await compute.create(ann), await compute.create(ann)];
  await give(compute, own, 'shop');
  await give(compute, own, null);
  const all = `compute.${ann.userId}.containers`;
  const token = (scopes: NonNullable<Caller['scopes']>): Caller => ({ ...ann, kind: 'api_token', scopes });
  const narrow = token({ [`${all}.${second}`]: ['update'] });
  const { message } = await refused('missing_scope', give(compute, second, 'shop', narrow));
  assert.equal(
    message,
    'The address "shop" was given up by one of your containers: a token takes it again only with "update" on ' +
      `${all}. Choose another, or give it as the user.`,
  );
  const body = { name: 'late', ssh_key_ids: [await compute.key(ann)], address_name: 'shop' };
  await refused('missing_scope', compute.call(createContainer, token({ [all]: ['create', 'read'] }), { body }));
  // So too where a node of an earlier version does not count the time yet.
  await compute.db.run(`update address_names set reserved_until = null where name = 'shop'`);
  await refused('missing_scope', give(compute, second, 'shop', narrow));
  const foreign = await compute.create(bob);
  await refused('conflict', give(compute, foreign, 'shop', bob));
  // Others it may have.
  assert.equal((await give(compute, second, 'store', narrow)).address_name, 'store');
  assert.equal((await give(compute, second, 'shop', token({ [all]: ['update'] }))).address_name, 'shop');
  assert.equal((await give(compute, second, null, narrow)).address_name, undefined);
  await refused('missing_scope', give(compute, second, 'shop', narrow));
  assert.equal((await give(compute, second, 'shop')).address_name, 'shop');
  await give(compute, second, null);
  compute.clock.advance((RESERVED_DAYS + 1) * DAY_MS);
  assert.equal((await give(compute, second, 'shop', narrow)).address_name, 'shop');
});

test('the names of a user are listed, with the time until which those given up are reserved, to nobody else', async (t) => {
  const compute = await openCompute(t);
  const [own, second] = [await compute.create(ann), await compute.create(ann)];
  const listed = async (who = ann) => (await compute.call(listAddressNames, who)).address_names;
  assert.deepEqual(await listed(), []);
  await give(compute, own, 'shop');
  await give(compute, second, 'store');
  await give(compute, own, 'market');
  await compute.on(deleteContainer, ann, second);
  const market = { name: 'market', container_id: own };
  const [first, ...given] = await listed();
  assert.deepEqual([first, ...given.map(({ name }) => name)], [market, 'shop', 'store']);
  for (const { container_id, reserved_until = '' } of given) {
    const days = (Date.parse(reserved_until) - compute.clock.now()) / DAY_MS;
    assert.ok(container_id === undefined && days > RESERVED_DAYS - 0.01 && days <= RESERVED_DAYS, reserved_until);
  }
  assert.deepEqual(await listed(bob), []);
  assert.equal((await compute.call(listAddressNames, ann)).reserved_limit, MAX_RESERVED_NAMES);
  // Those of a node of an earlier version, which does not count the time, are reserved from now on.
  await compute.db.run(`update address_names set reserved_until = null where name = 'store'`);
  assert.deepEqual(
    (await listed()).map(({ name }) => name),
    ['market', 'shop', 'store'],
  );
  await give(compute, own, 'shop');
  assert.deepEqual((await listed())[0], { name: 'shop', container_id: own });
  compute.clock.advance(RESERVED_DAYS * DAY_MS + 1);
  assert.deepEqual(await listed(), [{ name: 'shop', container_id: own }]);
});

test('who has given up ten names gets no new one, but any of them again, and the first that is free', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  for (let i = 0; i <= MAX_RESERVED_NAMES; i++) await give(compute, id, `name-${i}`);
  const { message } = await refused('limit_reached', give(compute, id, 'one-more'));
  assert.match(message, /^You gave up 10 addresses, .* take one of them again, or wait until .* on 20..-..-.*name-0, /);
  assert.equal((await compute.view(ann, id)).address_name, `name-${MAX_RESERVED_NAMES}`);
  assert.equal((await give(compute, id, 'name-0')).address_name, 'name-0');
  await give(compute, id, null);
  await refused('limit_reached', give(compute, id, 'one-more'));
  // Another user has a number of their own.
  const foreign = await compute.create(bob);
  assert.equal((await give(compute, foreign, 'one-more', bob)).address_name, 'one-more');
  compute.clock.advance((RESERVED_DAYS + 1) * DAY_MS);
  assert.equal((await give(compute, id, 'another')).address_name, 'another');
});

test('the owner is let in at a guarded port by the name, too, and not by one that was given up', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann, { address_name: 'shop' });
  const rule = { port: 8001, target_port: 8080, tls: 'platform', access: 'mine' } as const;
  await compute.call(addIngress, ann, { params: { id }, body: rule });
  const enter = (host: string, who = ann) =>
    compute.call(enterIngress, who, { params: { id, port: '8001' }, body: { host } });
  assert.match((await enter('shop.compute.cloud.test')).url, /^https:\/\/shop\.compute\.cloud\.test:8001\//);
  await refused('invalid_request', enter('store.compute.cloud.test'));
  await refused('not_found', enter('shop.compute.cloud.test', bob));
  await give(compute, id, 'store');
  await refused('invalid_request', enter('shop.compute.cloud.test'));
  assert.match((await enter('store.compute.cloud.test')).url, /^https:\/\/store\.compute\.cloud\.test:8001\//);
});

test('a name whose container an older node removed is counted from the next change, and forgotten after that', async (t) => {
  const compute = await openCompute(t);
  const [own, foreign] = [await compute.create(ann), await compute.create(bob)];
  await give(compute, own, 'shop');
  await compute.db.run('update address_names set container_id = null');
  await refused('conflict', give(compute, foreign, 'shop', bob));
  await give(compute, foreign, 'other', bob);
  const { message } = await refused('conflict', give(compute, foreign, 'shop', bob));
  assert.match(message, /is reserved until 20/);
  compute.clock.advance((RESERVED_DAYS + 1) * DAY_MS);
  await give(compute, foreign, 'another', bob);
  assert.equal(await compute.db.run(`select from address_names where name = 'shop'`), 0);
});
