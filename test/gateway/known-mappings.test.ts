/** A gateway reads of the mappings those that there is news of, and reads all again now and then. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { KnownMappings } from '../../actors/gateway/known-mappings.ts';
import type { MappingSource } from '../../proto/ports/acme.ts';
import { deleteMapping, lapseMapping, setMappingCache } from '../../storage/network/mappings.ts';
import { networkNews } from '../../storage/network/news.ts';
import { mappingSource } from '../../storage/network/served-mappings.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { CONTAINER, mapHostname } from '../support/network/mapped-hosts.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const [A, B] = ['a.example.org', 'b.example.org'];

/** Two mapped hostnames, as a gateway has read them. `rows` counts what its statements bring. */
async function open(t: TestContext) {
  const { db, close } = await testDatabase();
  t.after(close);
  const ids = { [A]: await mapHostname(db, A), [B]: await mapHostname(db, B, 8443) };
  const source = mappingSource(db, networkNews(db));
  let rows = 0;
  let isAway = false;
  const counted = async (found: ReturnType<MappingSource['named']>) => {
    const read = await found;
    if (isAway) throw new Error('the database is away');
    rows += read.length;
    return read;
  };
  const mappings = new KnownMappings({
    named: (hostnames) => counted(source.named(hostnames)),
    after: (hostname, limit) => counted(source.after(hostname, limit)),
  });
  await mappings.read(false);
  return {
    ...{ db, ids, source, mappings },
    rows: () => rows,
    setAway: (away: boolean) => {
      isAway = away;
    },
  };
}

test('a look reads the hostnames that there is news of, and no others', async (t) => {
  const { db, ids, source, mappings, rows } = await open(t);
  const heard = new Set<string | undefined>();
  const watching = source.watch((hostname) => {
    mappings.suspect(hostname);
    heard.add(hostname);
  });
  t.after(() => watching.close());
  // From then on nothing is missed.
  await until(() => heard.delete(undefined), { what: 'it listens' });
  const both = await mappings.read(false);
  assert.deepEqual(both.get(B), { containerId: CONTAINER, targetPort: 8443 });
  await mapHostname(db, 'c.example.org');
  await db.tx((tx) => deleteMapping(tx, ids[A] ?? ''));
  await db.tx((tx) => lapseMapping(tx, ids[B] ?? '', 'its proof is gone'));
  await until(() => heard.size === 3, { what: 'the news' });
  const one = await mappings.read(false);
  assert.deepEqual([...one.keys()], ['c.example.org']);
  assert.deepEqual([...both.keys()].sort(), [A, B], 'a snapshot stays as it was');
  const before = rows();
  mappings.suspect('c.example.org');
  assert.equal(await mappings.read(false), one, 'nothing is different');
  assert.equal(rows(), before + 1);
  assert.equal(await mappings.read(false), one);
  assert.equal(rows(), before + 1, 'without news nothing is read');
});

test('a hostname whose cache is changed is read again', async (t) => {
  const { db, ids, source, mappings } = await open(t);
  const heard: (string | undefined)[] = [];
  const watching = source.watch((hostname) => {
    heard.push(hostname);
    mappings.suspect(hostname);
  });
  t.after(() => watching.close());
  await until(() => heard.includes(undefined), { what: 'it listens' });
  assert.deepEqual((await mappings.read(false)).get(A), { containerId: CONTAINER, targetPort: 8080 });
  await db.tx((tx) => setMappingCache(tx, ids[A] ?? '', 'off'));
  await until(() => heard.includes(A), { what: 'the news' });
  assert.deepEqual((await mappings.read(false)).get(A), { containerId: CONTAINER, targetPort: 8080, cache: 'off' });
});

test('what was changed without news is found page by page, or when news may have been missed', async (t) => {
  const { db, mappings } = await open(t);
  await db.run(
    `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token, pending_since,
       verified_at)
     select 'm' || lpad(n::text, 11, '0'), 'uuuuuuuuuuu1', 'host-' || n || '.example.org', $1, 8080, 'verified', 'x',
       now(), now() from generate_series(1, 2500) as n`,
    [CONTAINER],
  );
  assert.equal((await mappings.read(false)).size, 2);
  mappings.suspect(undefined);
  assert.equal((await mappings.read(false)).size, 2502);
  await db.run('delete from domain_mappings where domain = $1', [A]);
  await db.run('update domain_mappings set target_port = 8081 where domain = $1', [B]);
  for (let page = 0; page < 3; page++) await mappings.read(true);
  const found = await mappings.read(false);
  assert.equal(found.size, 2501);
  assert.equal(found.get(B)?.targetPort, 8081);
});

test('a hostname that is mapped while the pages are read stays', async (t) => {
  const { db, ids, mappings } = await open(t);
  await db.run(
    `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token, pending_since,
       verified_at)
     select 'm' || lpad(n::text, 11, '0'), 'uuuuuuuuuuu1', 'host-' || n || '.example.org', $1, 8080, 'verified', 'x',
       now(), now() from generate_series(1, 1500) as n`,
    [CONTAINER],
  );
  // Its row is gone while its page is read, and there again before the last page.
  await db.tx((tx) => deleteMapping(tx, ids[A] ?? ''));
  await mappings.read(true);
  await mapHostname(db, A);
  mappings.suspect(A);
  await mappings.read(true);
  assert.equal((await mappings.read(false)).has(A), true);
});

test('a look that failed is made up for by the next one', async (t) => {
  const { db, ids, mappings, setAway } = await open(t);
  await db.tx((tx) => deleteMapping(tx, ids[A] ?? ''));
  mappings.suspect(A);
  setAway(true);
  await assert.rejects(mappings.read(true), /away/);
  setAway(false);
  assert.deepEqual([...(await mappings.read(false)).keys()], [B]);
  await mapHostname(db, A);
  mappings.suspect(undefined);
  setAway(true);
  await assert.rejects(mappings.read(false), /away/);
  setAway(false);
  assert.equal((await mappings.read(false)).size, 2);
});
