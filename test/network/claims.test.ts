/** Whose a hostname is: claims stand side by side, the first proof wins, and a name that was given away does not stay. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { failOnLeaks } from '../support/leaks.ts';
import { verifiedMapping } from '../support/network/verified-mapping.ts';
import { type NetworkUnderTest, openNetwork } from '../support/service/network.ts';
import type { Person } from '../support/service/people.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const DAY = 24 * 3_600_000;
const eventRow = z.object({ subject: z.string(), text: z.string() });

const verify = (network: NetworkUnderTest, { token }: Person, { id }: Record<string, unknown>) =>
  network.call(token, 'POST', `/api/domain-mappings/${id}/verify`);

/** What users were told, by their id. */
async function told(network: NetworkUnderTest, { id }: Person): Promise<string[]> {
  const rows = await network.db.many(
    eventRow,
    `select subject, encode(data, 'escape') as text from outbox where subject = $1 order by id`,
    [`notify.${id}`],
  );
  return rows.map(({ text }) => text);
}

test('claims stand side by side, and the first proof ends the others and tells their users', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann, eve] = [await network.person(), await network.person(), await network.person()];
  const claim = await network.map(bob, 'www.example.org');
  const mine = await network.map(ann, 'www.example.org');
  assert.equal(mine.status, 'pending');
  assert.notEqual(mine.verify_token, claim.verify_token);
  const again = await network.call(ann.token, 'POST', '/api/domain-mappings', {
    ...{ domain: 'www.example.org', container_id: mine.container_id, target_port: 80 },
  });
  assert.deepEqual([again.status, again.text], [409, 'domain already in use'], 'once for each user');

  await network.dns.set(`_svc-verify.www TXT "${mine.verify_token}"`);
  assert.deepEqual((await verify(network, ann, mine)).json, { status: 'verified' });
  assert.equal((await verifiedMapping(network.db, 'www.example.org'))?.userId, ann.id);
  const lost = await network.mapping(bob, 'www.example.org');
  assert.deepEqual([lost?.status, lost?.detail], ['failed', 'another account proved that the name is theirs']);
  const [notice = ''] = await told(network, bob);
  assert.match(notice, /www\.example\.org is somebody else's/);
  const [won = '', ...more] = await told(network, ann);
  assert.match(won, /www\.example\.org is verified/);
  for (const text of [notice, won]) assert.match(text, /\n\/hostnames/);
  assert.deepEqual(more, []);

  // Proven is proven: nobody claims it, or their old claim, any more.
  const third = await network.call(eve.token, 'POST', '/api/domain-mappings', {
    ...{ domain: 'www.example.org', container_id: await network.container(eve), target_port: 80 },
  });
  assert.deepEqual([third.status, third.text], [409, 'domain already in use']);
  const retried = await verify(network, bob, claim);
  assert.deepEqual([retried.status, retried.text], [409, 'domain already in use']);
  await network.call(ann.token, 'DELETE', `/api/domain-mappings/${mine.id}`);
  assert.equal((await verify(network, bob, claim)).json.status, 'pending', 'given up, it is open to claims again');
});

test('a proven zone takes the name from a pending claim at once', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann] = [await network.person(), await network.person()];
  await network.map(bob, 'www.victim.example');
  await network.connect(ann, 'victim.example');
  const mine = await network.map(ann, 'www.victim.example');
  assert.deepEqual([mine.status, mine.dns_automated], ['verified', true]);
  assert.equal((await network.mapping(bob, 'www.victim.example'))?.status, 'failed');
});

test('of proofs at once one wins', async (t) => {
  const network = await openNetwork(t);
  const people = await Promise.all(Array.from({ length: 5 }, () => network.person()));
  const claims: Record<string, unknown>[] = [];
  for (const person of people) claims.push(await network.map(person, 'www.example.org'));
  await network.dns.set(...claims.map(({ verify_token }) => `_svc-verify.www TXT "${verify_token}"`));
  await Promise.all(people.map((person, i) => verify(network, person, claims[i] ?? {})));
  const states = await Promise.all(people.map(async (p) => (await network.mapping(p, 'www.example.org'))?.status));
  assert.deepEqual(states.sort(), ['failed', 'failed', 'failed', 'failed', 'verified']);
});

test('a name whose record is gone and that leads elsewhere lapses after two weeks, with a warning', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const mine = await network.map(ann, 'www.example.org');
  const record = `_svc-verify.www TXT "${mine.verify_token}"`;
  await network.dns.set(record);
  await verify(network, ann, mine);
  const shown = async () => (await network.mapping(ann, 'www.example.org'))?.detail ?? '';
  await network.dns.set('other TXT "nothing"');
  network.clock.advance(8 * DAY);
  await until(
    async () => /make a TXT record _svc-verify.* before .*, or the mapping ends/.test(String(await shown())),
    {
      what: 'the warning',
    },
  );
  const warned = async () => (await told(network, ann)).filter((text) => text.includes('is about to lapse')).length;
  assert.equal(await warned(), 1);

  // It comes back within the time, and nothing is said any more.
  await network.dns.set(record);
  assert.deepEqual((await verify(network, ann, mine)).json, { status: 'verified' });
  assert.equal(await shown(), '');

  await network.dns.set('other TXT "nothing"');
  network.clock.advance(8 * DAY);
  await until(async () => (await shown()) !== '', { what: 'the next warning' });
  assert.equal((await network.mapping(ann, 'www.example.org'))?.status, 'verified');
  network.clock.advance(15 * DAY);
  await until(async () => (await network.mapping(ann, 'www.example.org'))?.status === 'failed', { what: 'it lapses' });
  assert.equal(await verifiedMapping(network.db, 'www.example.org'), null);
  await until(() => network.news.some(({ kind }) => kind === 'removed'), { what: 'gateways hear of it' });
});

test('resolvers are not asked as fast as somebody calls: a mapping and a user have their pace', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const mine = await network.map(ann, 'a.example.org');
  const answers = [];
  for (let i = 0; i < 12; i++) answers.push(await verify(network, ann, mine));
  const refused = answers.find(({ status }) => status === 429);
  assert.match(refused?.text ?? '', /^verified too often: try again in \d+ s/);
  assert.match(refused?.headers.get('content-type') ?? '', /^text\/plain/);
  assert.ok(Number(refused?.headers.get('retry-after')) >= 1);
  network.clock.advance(60_000);
  assert.equal((await verify(network, ann, mine)).status, 200);
});

test('whoever makes and deletes mappings has resolvers asked for their zones at that pace, too', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const containerId = await network.container(ann);
  const made = async (name: string) => {
    const mapping = await network.map(ann, name, containerId);
    const gone = await network.call(ann.token, 'DELETE', `/api/domain-mappings/${mapping.id}`);
    assert.equal(gone.status, 204, gone.text);
    return mapping.zone;
  };
  const zones: unknown[] = [];
  while (zones.at(-1) !== undefined || zones.length === 0) {
    zones.push(await made(`n${zones.length}.example.org`));
    assert.ok(zones.length < 100, 'each has its zone looked for');
  }
  assert.ok(zones.length > 30);
  // Others have a pace of their own, and what was not found at once is found by the first look.
  assert.equal((await network.map(await network.person(), 'b.example.org')).zone, 'example.org');
  const late = await network.map(ann, 'late.example.org', containerId);
  network.clock.advance(31_000);
  await until(async () => (await network.mapping(ann, 'late.example.org'))?.zone === 'example.org', {
    what: 'the zone is found',
  });
  assert.equal(late.status, 'pending');
});
