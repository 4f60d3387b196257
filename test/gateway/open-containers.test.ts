/** A gateway reads of containers what changed since its last look, misses nothing by that, and reads all again now and then. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { OpenContainers } from '../../actors/gateway/open-containers.ts';
import { forgetContainer } from '../../storage/compute/deleted.ts';
import { deleteRule, insertRule, setRuleCache } from '../../storage/compute/ingress.ts';
import type { Queries } from '../../storage/queries.ts';
import { testDatabase } from '../support/database/database.ts';
import { addContainer } from '../support/gateway/containers.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const NOBODY: ReadonlySet<string> = new Set();
const [ONE, TWO] = ['abcdefghijk1', 'abcdefghijk2'];

/** Two containers with port 80 open, as a gateway has read them. `rows` counts what its statements bring. */
async function open(t: TestContext) {
  const { db, close } = await testDatabase();
  t.after(close);
  await addContainer(db, ONE, { ports: [[80, 8080]] });
  await addContainer(db, TWO, { slot: 2, ports: [[80, 8080]] });
  let rows = 0;
  const counting: Queries = Object.create(db, {
    many: {
      value: async (...question: Parameters<Queries['many']>) => {
        const found = await db.many(...question);
        rows += found.length;
        return found;
      },
    },
    one: { value: (...question: Parameters<Queries['one']>) => db.one(...question) },
  });
  const containers = new OpenContainers(counting);
  await containers.read(NOBODY);
  return { db, containers, rows: () => rows, look: () => containers.read(NOBODY) };
}

test('a look reads the containers whose rules or status changed, and no others', async (t) => {
  const { db, containers, rows, look } = await open(t);
  await look();
  const before = rows();
  await look();
  assert.equal(rows(), before, 'nothing changed');
  await db.tx((tx) => insertRule(tx, ONE, { port: 8000, targetPort: 22, tls: 'platform' }));
  await db.run(`update containers set desired = 'stopped', status = 'stopped' where id = $1`, [TWO]);
  await look();
  assert.equal(rows(), before + 2);
  assert.deepEqual(containers.get(ONE)?.ports, [
    [80, 8080],
    [8000, 22],
  ]);
  assert.deepEqual(containers.get(ONE)?.endsTls, [8000]);
  assert.deepEqual(containers.get(ONE)?.caches, []);
  assert.deepEqual([containers.get(TWO)?.isWanted, containers.get(TWO)?.status], [false, 'stopped']);
  await db.tx((tx) => setRuleCache(tx, ONE, 8000, 'explicit'));
  await look();
  assert.deepEqual(containers.get(ONE)?.caches, [{ port: 8000, cache: 'explicit' }]);
  await db.tx((tx) => deleteRule(tx, ONE, 80));
  await db.tx((tx) => deleteRule(tx, TWO, 80));
  await look();
  assert.deepEqual(containers.get(ONE)?.ports, [[8000, 22]]);
  assert.deepEqual(containers.ids(NOBODY), [ONE]);
});

test('a transaction that is open across looks is seen once it ends, though later ones ended before it', async (t) => {
  const { db, containers, rows, look } = await open(t);
  await db.tx(async (tx) => {
    await insertRule(tx, ONE, { port: 8000, targetPort: 22, tls: 'container' });
    await db.tx((other) => insertRule(other, TWO, { port: 8001, targetPort: 23, tls: 'container' }));
    await look();
    assert.deepEqual([containers.get(ONE)?.ports.length, containers.get(TWO)?.ports.length], [1, 2]);
    const before = rows();
    await look();
    assert.equal(rows(), before, 'what was read is not read again because another is open');
  });
  await look();
  assert.equal(containers.get(ONE)?.ports.length, 2);
});

test('a container that is deleted is forgotten: by its row, by its news, or since it is not there any more', async (t) => {
  const { db, containers, look } = await open(t);
  const end = async (id: string) => {
    await db.run(`update containers set desired = 'deleted', slot = null where id = $1`, [id]);
  };
  await end(ONE);
  await look();
  assert.equal(containers.get(ONE)?.isWanted, false);
  await forgetContainer(db, ONE);
  await look();
  assert.equal(containers.get(ONE), undefined);
  await end(TWO);
  await forgetContainer(db, TWO);
  containers.suspect(TWO);
  await look();
  assert.deepEqual(containers.ids(NOBODY), []);

  for (const find of [() => containers.sweep(NOBODY), () => containers.suspectAll()]) {
    await addContainer(db, ONE, { ports: [[80, 8080]] });
    await look();
    assert.deepEqual(containers.ids(NOBODY), [ONE]);
    await db.run('delete from containers where id = $1', [ONE]);
    await find();
    await look();
    assert.deepEqual(containers.ids(NOBODY), []);
  }
});

test('rules that were changed past the statements of the platform are found page by page', async (t) => {
  const { db, containers, look } = await open(t);
  await db.run(
    `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths,
       ssh_enabled, desired, status)
     select 'b' || lpad(n::text, 11, '0'), 'u' || n, 1, 'box', 'nano', 512, 5, 'Always', '{/root}', true, 'running',
       'running' from generate_series(1, 2500) as n`,
  );
  await db.run('insert into ingress_rules (container_id, port, target_port) select id, 443, 1 from containers');
  containers.suspectAll();
  await look();
  assert.equal(containers.ids(NOBODY).length, 2502);
  await db.run('delete from ingress_rules where container_id = $1', ['b00000002000']);
  await db.run('update ingress_rules set target_port = 2 where container_id = $1 and port = 443', [TWO]);
  await look();
  assert.equal(containers.ids(NOBODY).length, 2502);
  for (let page = 0; page < 3; page++) await containers.sweep(NOBODY);
  assert.equal(containers.ids(NOBODY).length, 2501);
  assert.deepEqual(containers.get(TWO)?.ports.at(-1), [443, 2]);
});

test('a container that is named is kept without an open port', async (t) => {
  const { db, containers } = await open(t);
  await db.tx((tx) => deleteRule(tx, ONE, 80));
  const also = new Set([ONE]);
  await containers.read(also);
  await containers.read(also);
  assert.equal(containers.get(ONE)?.isWanted, true);
  assert.deepEqual(new Set(containers.ids(also)), new Set([ONE, TWO]));
});
