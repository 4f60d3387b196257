/** Whose a hostname is: one claim holds it, a proof displaces a pending one, and a name that was given away does not stay. */

import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { z } from 'zod';
import { failOnLeaks } from '../support/leaks.ts';
import { type Fault, no } from '../support/network/dns-provider.ts';
import { BROKEN_ZONE } from '../support/network/dns-server.ts';
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

/** Asks for a hostname: the reply, and the record that its header fields name. */
async function ask(network: NetworkUnderTest, person: Person, domain: string, container?: string) {
  const body = { domain, container_id: container ?? (await network.container(person)), target_port: 80 };
  // A program that sends its request again keeps the key: what may go well the next time is not kept.
  const key = { 'idempotency-key': JSON.stringify(body) };
  const { status, text, json, headers } = await network.call(person.token, 'POST', '/api/domain-mappings', body, key);
  const [name, value] = [headers.get('x-troupe-proof-name'), headers.get('x-troupe-proof-value')];
  return { said: [status, status === 201 ? json.status : text], name, value, json, headers };
}

const IN_USE = [409, 'domain already in use'];

test('a pending claim holds a hostname until another user proves it by a record that is theirs alone', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann, eve] = [await network.person(), await network.person(), await network.person()];
  const squatted = await network.map(bob, 'www.example.org');
  const hers = await network.container(ann);
  const refused = await ask(network, ann, 'WWW.example.org.', hers);
  assert.deepEqual([refused.said, refused.name], [IN_USE, '_svc-verify.www.example.org']);
  assert.match(refused.headers.get('content-type') ?? '', /^text\/plain/);
  assert.match(refused.value ?? '', /^svc-verify-[\w-]{32}$/);
  assert.equal((await ask(network, ann, 'www.example.org', hers)).value, refused.value, 'the same each time');
  const own = await ask(network, bob, 'www.example.org');
  assert.deepEqual([own.said, own.name, own.value], [IN_USE, null, null], 'once for each user');

  const record = `_svc-verify.www TXT "${refused.value}"`;
  await network.dns.set(record);
  const others = await ask(network, eve, 'www.example.org');
  assert.deepEqual([others.said, others.value === refused.value], [IN_USE, false]);
  const mine = await ask(network, ann, 'www.example.org', hers);
  assert.deepEqual([mine.said, mine.json.verify_token], [[201, 'verified'], refused.value]);
  assert.equal((await verifiedMapping(network.db, 'www.example.org'))?.userId, ann.id);
  const lost = await network.mapping(bob, 'www.example.org');
  assert.deepEqual([lost?.status, lost?.detail], ['failed', 'another account proved that the name is theirs']);
  const [notice = ''] = await told(network, bob);
  assert.match(notice, /www\.example\.org is somebody else's/);
  const [won = '', ...more] = await told(network, ann);
  assert.match(won, /www\.example\.org is verified/);
  for (const text of [notice, won]) assert.match(text, /\n\/hostnames/);
  assert.deepEqual(more, []);
  const entries = await network.db.many(
    z.object({ action: z.string(), userId: z.string(), target: z.string() }),
    `select action, user_id as "userId", target from audit_log where target in ($1, $2) order by id`,
    [squatted.id, mine.json.id],
  );
  const displaced = entries.find(({ action }) => action === 'mapping.displaced');
  assert.deepEqual([displaced?.userId, displaced?.target], [bob.id, squatted.id]);
  assert.deepEqual(
    entries.filter(({ target }) => target === mine.json.id).map(({ action }) => action),
    ['mapping.create', 'mapping.verified'],
  );

  // Proven is proven: no record takes it away.
  const third = await ask(network, eve, 'www.example.org');
  assert.deepEqual([third.said, third.name], [IN_USE, null]);
  const retried = await verify(network, bob, squatted);
  assert.deepEqual([retried.status, retried.text, retried.headers.get('x-troupe-proof-name')], [...IN_USE, null]);
  // Given up, it is open to claims again, and a failed one needs its own record against a pending one.
  await network.call(ann.token, 'DELETE', `/api/domain-mappings/${mine.json.id}`);
  assert.equal((await network.map(eve, 'www.example.org')).status, 'pending');
  const held = await verify(network, bob, squatted);
  assert.deepEqual(
    [held.status, held.text, held.headers.get('x-troupe-proof-value')],
    [...IN_USE, own.value ?? squatted.verify_token],
  );
  await network.dns.set(record, `_svc-verify.www TXT "${squatted.verify_token}"`);
  assert.deepEqual((await verify(network, bob, squatted)).json, { status: 'verified' });
  assert.equal((await network.mapping(eve, 'www.example.org'))?.status, 'failed');
});

test('a zone of the user displaces a pending claim without a record, unless it was given up', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann] = [await network.person(), await network.person()];
  for (const name of ['www.victim.example', 'other.victim.example']) await network.map(bob, name);
  const { token } = await network.connect(ann, 'victim.example');
  const mine = await network.map(ann, 'www.victim.example');
  assert.deepEqual([mine.status, mine.dns_automated], ['verified', true]);
  assert.equal((await network.mapping(bob, 'www.victim.example'))?.status, 'failed');
  assert.match((await told(network, bob)).join(), /www\.victim\.example is somebody else's/);
  const [zone] = network.provider.zones.get(token) ?? [];
  assert.ok(zone);
  zone.status = 'moved';
  const refused = await ask(network, ann, 'other.victim.example');
  assert.deepEqual([refused.said, refused.name], [IN_USE, '_svc-verify.other.victim.example']);
  assert.equal((await network.mapping(bob, 'other.victim.example'))?.status, 'pending');
});

test('of claims at once one holds the hostname, and of proofs at once one takes it', async (t) => {
  const network = await openNetwork(t);
  const people = await Promise.all(Array.from({ length: 5 }, () => network.person()));
  const all = () => Promise.all(people.map((person) => ask(network, person, 'www.example.org')));
  const claims = await all();
  assert.deepEqual(claims.map(({ said }) => said[0]).sort(), [201, 409, 409, 409, 409]);
  await network.dns.set(...claims.flatMap(({ value }) => (value === null ? [] : [`_svc-verify.www TXT "${value}"`])));
  assert.deepEqual((await all()).map(({ said }) => said[0]).sort(), [201, 409, 409, 409, 409]);
  const states = await Promise.all(people.map(async (p) => (await network.mapping(p, 'www.example.org'))?.status));
  assert.deepEqual(states.sort(), ['failed', 'verified', undefined, undefined, undefined]);
});

test('claims that a version before put side by side end with the first proof', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann] = [await network.person(), await network.person()];
  const [his, mine] = [await network.map(bob, 'bob.example.org'), await network.map(ann, 'www.example.org')];
  await network.db.run(`update domain_mappings set domain = 'www.example.org' where id = $1`, [his.id]);
  await network.dns.set(`_svc-verify.www TXT "${mine.verify_token}"`);
  assert.deepEqual((await verify(network, ann, mine)).json, { status: 'verified' });
  assert.equal((await network.mapping(bob, 'www.example.org'))?.status, 'failed');
  assert.match((await told(network, bob)).join(), /www\.example\.org is somebody else's/);
});

test('a claim holds nothing after seven days, even while no resolver answers', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann] = [await network.person(), await network.person()];
  const name = `www.${BROKEN_ZONE}`;
  await network.map(bob, name);
  network.clock.advance(7 * DAY - 60_000);
  assert.deepEqual((await ask(network, ann, name)).said, IN_USE);
  network.clock.advance(61_000);
  assert.equal((await network.mapping(bob, name))?.status, 'pending');
  assert.deepEqual((await ask(network, ann, name)).said, [201, 'pending']);
  const ended = await network.mapping(bob, name);
  assert.deepEqual([ended?.status, ended?.detail], ['failed', 'not verified within 7 days']);
  assert.match((await told(network, bob)).join(), /could not be verified/);
});

test('who asks for a held hostname again and again is refused without a look, and told when to ask', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann] = [await network.person(), await network.person()];
  await network.map(bob, 'www.example.org');
  const container = await network.container(ann);
  const again = () => ask(network, ann, 'www.example.org', container);
  let last = await again();
  for (let i = 0; i < 40 && !last.headers.has('retry-after'); i++) last = await again();
  assert.deepEqual([last.said, last.name], [IN_USE, '_svc-verify.www.example.org']);
  assert.ok(Number(last.headers.get('retry-after')) >= 1);
});

test('a look for the proof of a held hostname that gets no answer keeps its user from nothing else', async (t) => {
  const network = await openNetwork(t);
  const [bob, ann] = [await network.person(), await network.person()];
  for (const name of ['www.victim.example', 'www.example.org']) await network.map(bob, name);
  await network.connect(ann, 'victim.example');
  const container = await network.container(ann);
  const mine = await network.map(ann, 'mine.example.org', container);
  const waiting: ServerResponse[] = [];
  network.provider.fault = (_path, response) => waiting.push(response) > 0;
  let isAnswered = false;
  const asked = ask(network, ann, 'www.victim.example', container).finally(() => {
    isAnswered = true;
  });
  await until(() => waiting.length > 0, { what: 'the provider is asked' });
  assert.equal((await network.mapping(ann, 'mine.example.org'))?.id, mine.id);
  assert.deepEqual((await verify(network, ann, mine)).json.status, 'pending');
  assert.deepEqual((await ask(network, ann, 'free.example.org', container)).said, [201, 'pending']);
  const next = await ask(network, ann, 'www.example.org', container);
  assert.deepEqual([next.said, next.name], [IN_USE, '_svc-verify.www.example.org']);
  assert.ok(Number(next.headers.get('retry-after')) >= 1, 'one look at a time');
  assert.equal(isAnswered, false);
  network.provider.fault = undefined;
  for (const response of waiting) no(response, 403, 9109, 'Invalid access token');
  assert.deepEqual((await asked).said, IN_USE);
  const again = await ask(network, ann, 'www.victim.example', container);
  assert.deepEqual(again.said, [201, 'verified'], 'and then the next one');
});

test('a mapping that failed while its proof was looked for is not told to be verified', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  await network.connect(ann, 'example.org');
  network.provider.fault = (_path, response) => {
    no(response, 500, 1, 'Internal error');
    return true;
  };
  const mine = await network.map(ann, 'www.example.org');
  network.provider.fault = (path, response) => {
    if (!path.endsWith('/dns_records')) return false;
    void network.db
      .run(`update domain_mappings set status = 'failed', next_check_at = null where id = $1`, [mine.id])
      .then(() => response.end('{"success":true,"errors":[],"messages":[],"result":{"id":"record1"}}'));
    return true;
  };
  const { status, text } = await verify(network, ann, mine);
  assert.deepEqual([status, text], IN_USE);
  assert.equal((await network.mapping(ann, 'www.example.org'))?.status, 'failed');
});

test('a TXT record proves a mapping whose record the provider does not make', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const { token } = await network.connect(ann, 'example.org');
  const fault: Fault = (_path, response) => {
    no(response, 500, 1, 'Internal error');
    return true;
  };
  network.provider.fault = fault;
  const container = await network.container(ann);
  const [a, b] = [
    await network.map(ann, 'a.example.org', container),
    await network.map(ann, 'b.example.org', container),
  ];
  const { json } = await verify(network, ann, a);
  assert.equal(json.status, 'pending');
  assert.match(String(json.detail), /the CNAME record for a\.example\.org could not be made.*without it, make a TXT/);
  await network.dns.set(`_svc-verify.a TXT "${a.verify_token}"`, `_svc-verify.b TXT "${b.verify_token}"`);
  assert.deepEqual((await verify(network, ann, a)).json, { status: 'verified' });
  network.provider.fault = undefined;
  const [zone] = network.provider.zones.get(token) ?? [];
  assert.ok(zone);
  zone.status = 'moved';
  assert.deepEqual((await verify(network, ann, b)).json, { status: 'verified' });
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
