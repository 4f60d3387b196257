/** Whose a hostname is: claims stand side by side, the first proof wins, and a name that was given away does not stay. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { verifiedMapping } from '../../storage/network/mappings.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openWorld, type Person, type World } from '../support/service/network.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const DAY = 24 * 3_600_000;
const eventRow = z.object({ subject: z.string(), text: z.string() });

const verify = (world: World, { token }: Person, { id }: Record<string, unknown>) =>
  world.call(token, 'POST', `/api/domain-mappings/${id}/verify`);

/** What users were told, by their id. */
async function told(world: World, { id }: Person): Promise<string[]> {
  const rows = await world.db.many(
    eventRow,
    `select subject, encode(data, 'escape') as text from outbox where subject = $1 order by id`,
    [`notify.${id}`],
  );
  return rows.map(({ text }) => text);
}

test('claims stand side by side, and the first proof ends the others and tells their users', async (t) => {
  const world = await openWorld(t);
  const [bob, ann, eve] = [await world.person(), await world.person(), await world.person()];
  const claim = await world.map(bob, 'www.example.org');
  const mine = await world.map(ann, 'www.example.org');
  assert.equal(mine.status, 'pending');
  assert.notEqual(mine.verify_token, claim.verify_token);
  const again = await world.call(ann.token, 'POST', '/api/domain-mappings', {
    ...{ domain: 'www.example.org', container_id: mine.container_id, target_port: 80 },
  });
  assert.deepEqual([again.status, again.text], [409, 'domain already in use'], 'once for each user');

  await world.dns.set(`_svc-verify.www TXT "${mine.verify_token}"`);
  assert.deepEqual((await verify(world, ann, mine)).json, { status: 'verified' });
  assert.equal((await verifiedMapping(world.db, 'www.example.org'))?.userId, ann.id);
  const lost = await world.mapping(bob, 'www.example.org');
  assert.deepEqual([lost?.status, lost?.detail], ['failed', 'another account proved that the name is theirs']);
  const [notice = ''] = await told(world, bob);
  assert.match(notice, /www\.example\.org is somebody else's/);
  assert.deepEqual(await told(world, ann), []);

  // Proven is proven: nobody claims it, or their old claim, any more.
  const third = await world.call(eve.token, 'POST', '/api/domain-mappings', {
    ...{ domain: 'www.example.org', container_id: await world.container(eve), target_port: 80 },
  });
  assert.deepEqual([third.status, third.text], [409, 'domain already in use']);
  const retried = await verify(world, bob, claim);
  assert.deepEqual([retried.status, retried.text], [409, 'domain already in use']);
  await world.call(ann.token, 'DELETE', `/api/domain-mappings/${mine.id}`);
  assert.equal((await verify(world, bob, claim)).json.status, 'pending', 'given up, it is open to claims again');
});

test('a proven zone takes the name from a pending claim at once', async (t) => {
  const world = await openWorld(t);
  const [bob, ann] = [await world.person(), await world.person()];
  await world.map(bob, 'www.victim.example');
  await world.connect(ann, 'victim.example');
  const mine = await world.map(ann, 'www.victim.example');
  assert.deepEqual([mine.status, mine.dns_automated], ['verified', true]);
  assert.equal((await world.mapping(bob, 'www.victim.example'))?.status, 'failed');
});

test('of proofs at once one wins', async (t) => {
  const world = await openWorld(t);
  const people = await Promise.all(Array.from({ length: 5 }, () => world.person()));
  const claims: Record<string, unknown>[] = [];
  for (const person of people) claims.push(await world.map(person, 'www.example.org'));
  await world.dns.set(...claims.map(({ verify_token }) => `_svc-verify.www TXT "${verify_token}"`));
  await Promise.all(people.map((person, i) => verify(world, person, claims[i] ?? {})));
  const states = await Promise.all(people.map(async (p) => (await world.mapping(p, 'www.example.org'))?.status));
  assert.deepEqual(states.sort(), ['failed', 'failed', 'failed', 'failed', 'verified']);
});

test('a name whose record is gone and that leads elsewhere lapses after two weeks, with a warning', async (t) => {
  const world = await openWorld(t);
  const ann = await world.person();
  const mine = await world.map(ann, 'www.example.org');
  const record = `_svc-verify.www TXT "${mine.verify_token}"`;
  await world.dns.set(record);
  await verify(world, ann, mine);
  const shown = async () => (await world.mapping(ann, 'www.example.org'))?.detail ?? '';
  await world.dns.set('other TXT "nothing"');
  world.clock.advance(8 * DAY);
  await until(
    async () => /make a TXT record _svc-verify.* before .*, or the mapping ends/.test(String(await shown())),
    {
      what: 'the warning',
    },
  );
  assert.equal((await told(world, ann)).length, 1);

  // It comes back within the time, and nothing is said any more.
  await world.dns.set(record);
  assert.deepEqual((await verify(world, ann, mine)).json, { status: 'verified' });
  assert.equal(await shown(), '');

  await world.dns.set('other TXT "nothing"');
  world.clock.advance(8 * DAY);
  await until(async () => (await shown()) !== '', { what: 'the next warning' });
  assert.equal((await world.mapping(ann, 'www.example.org'))?.status, 'verified');
  world.clock.advance(15 * DAY);
  await until(async () => (await world.mapping(ann, 'www.example.org'))?.status === 'failed', { what: 'it lapses' });
  assert.equal(await verifiedMapping(world.db, 'www.example.org'), null);
  await until(() => world.news.some(({ kind }) => kind === 'removed'), { what: 'gateways hear of it' });
});

test('resolvers are not asked as fast as somebody calls: a mapping and a user have their pace', async (t) => {
  const world = await openWorld(t);
  const ann = await world.person();
  const mine = await world.map(ann, 'a.example.org');
  const answers = [];
  for (let i = 0; i < 12; i++) answers.push(await verify(world, ann, mine));
  const refused = answers.find(({ status }) => status === 429);
  assert.match(refused?.text ?? '', /^verified too often: try again in \d+ s/);
  assert.match(refused?.headers.get('content-type') ?? '', /^text\/plain/);
  assert.ok(Number(refused?.headers.get('retry-after')) >= 1);
  world.clock.advance(60_000);
  assert.equal((await verify(world, ann, mine)).status, 200);
});
