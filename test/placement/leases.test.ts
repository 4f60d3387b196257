import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { z } from 'zod';
import type { ShardLease } from '../../proto/ports/placement.ts';
import { type Db, openDb } from '../../storage/db.ts';
import { fence } from '../../storage/fenced.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { listNodes, listServiceShards } from '../../storage/placement/nodes.ts';
import { MemoryLeases } from '../../supervision/testing/index.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { fenced, leaseStoreSuite, nobody, nodeNamed, shardsOf } from '../support/placement/lease-store-conformance.ts';
import { until } from '../support/until.ts';

const LONG = 60_000;
const COUNT = 8;
describe('leases', () => {
  let database: TestDatabase;

  before(async () => {
    database = await testDatabase();
    await database.db.script(
      'create table writes (n int generated always as identity, shard int, epoch bigint, by text)',
    );
  });
  after(() => database.close());

  /** The store on a database without nodes and shards. */
  async function fresh(): Promise<{ store: ReturnType<typeof leaseStore>; db: Db }> {
    await database.db.script('truncate placement_nodes, placement_shards, writes');
    return { store: leaseStore(database.db), db: database.db };
  }

  leaseStoreSuite('in the database', async () => {
    const { store, db } = await fresh();
    return { store, write: (lease) => db.tx((tx) => fence(tx, lease)) };
  });

  leaseStoreSuite('in memory', async () => {
    const store = new MemoryLeases();
    return { store, write: async (lease) => store.fence(lease) };
  });

  /** A transaction that has proven its lease and waits. */
  async function openWrite(db: Db, lease: ShardLease, idleMs?: number) {
    const { promise: goOn, resolve: finish } = promiseOf();
    const { promise: proven, resolve: reached } = promiseOf();
    const done = db.tx(async (tx) => {
      await fence(tx, lease, idleMs);
      reached();
      await goOn;
      await tx.run('insert into writes (shard, epoch) values ($1, $2)', [lease.shard, lease.epoch]);
    });
    done.catch(() => {});
    await proven;
    return { finish, done };
  }

  function promiseOf(): { promise: Promise<void>; resolve: () => void } {
    let resolve = () => {};
    const promise = new Promise<void>((settle) => {
      resolve = settle;
    });
    return { promise, resolve };
  }

  test('a shard is not taken in the middle of a write, and the writes of its former owner are all before it', async () => {
    const { store, db } = await fresh();
    await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const [lease] = await store.take('a', shardsOf(2), COUNT);
    assert.ok(lease);
    const write = await openWrite(db, lease);
    await db.run("update placement_nodes set expires_at = now() where id = 'a'");
    assert.deepEqual(await store.take('b', shardsOf(2), COUNT), []);
    write.finish();
    await write.done;
    assert.equal((await store.take('b', shardsOf(2), COUNT)).length, 1);
    await assert.rejects(
      db.tx((tx) => fence(tx, lease)),
      fenced,
    );
  });

  test('a shard is not released in the middle of a write', async () => {
    const { store, db } = await fresh();
    await store.beat(nodeNamed('a'), LONG, nobody);
    const leases = await store.take('a', shardsOf(2, 3), COUNT);
    const [lease] = leases;
    assert.ok(lease);
    const write = await openWrite(db, lease);
    assert.deepEqual(await store.release('a', leases), [lease]);
    write.finish();
    await write.done;
    assert.deepEqual(await store.release('a', [lease]), []);
  });

  test('a node that freezes in the middle of a write does not keep its shard for long', async () => {
    const { store, db } = await fresh();
    await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const [lease] = await store.take('a', shardsOf(2), COUNT);
    assert.ok(lease);
    const write = await openWrite(db, lease, 200);
    await db.run("update placement_nodes set expires_at = now() where id = 'a'");
    await until(async () => (await store.take('b', shardsOf(2), COUNT)).length === 1);
    write.finish();
    await assert.rejects(write.done);
    assert.deepEqual(await db.many(z.unknown(), 'select from writes'), []);
  });

  test('clients that race for shards, let go of them and freeze: an epoch has one owner, and no write comes after its epoch', async () => {
    const clients = await Promise.all(
      ['a', 'b', 'c', 'd'].map(async (id) => {
        const db = openDb(database.connection, { log: silentLog, name: `racer-${id}`, max: 3 });
        return { id, db, store: leaseStore(db) };
      }),
    );
    try {
      const step = fc.record({
        client: fc.nat(3),
        shards: fc.uniqueArray(fc.nat(3), { minLength: 1, maxLength: 3 }),
        what: fc.constantFrom('take', 'take', 'write', 'write', 'release', 'beat', 'expire', 'leave'),
      });
      const program = fc.array(step, { minLength: 20, maxLength: 60 });
      await fc.assert(
        fc.asyncProperty(program, async (steps) => {
          const { db } = await fresh();
          const granted = new Map<string, string>();
          /** All that a client was ever granted: it writes with any of it, as one would that knows nothing. */
          const held = clients.map((): ShardLease[] => []);
          const problems: string[] = [];
          for (const client of clients) await client.store.beat(nodeNamed(client.id), LONG, nobody);
          // Eight at a time: what the others do falls between.
          await inLanes(8, steps, async ({ client: index, shards, what }) => {
            const client = clients[index];
            const mine = held[index];
            if (client === undefined || mine === undefined) return;
            if (what === 'take') {
              for (const lease of await client.store.take(client.id, shardsOf(...shards), 4)) {
                const key = `${lease.shard}@${lease.epoch}`;
                const other = granted.get(key);
                if (other !== undefined) problems.push(`${key} was granted to ${other} and to ${client.id}`);
                granted.set(key, client.id);
                mine.push(lease);
              }
            } else if (what === 'write') {
              for (const lease of mine.filter(({ shard }) => shards.includes(shard))) {
                await client.db
                  .tx(async (tx) => {
                    await fence(tx, lease);
                    await tx.run('insert into writes (shard, epoch, by) values ($1, $2, $3)', [
                      lease.shard,
                      lease.epoch,
                      client.id,
                    ]);
                  })
                  .catch((error: unknown) => fenced(error));
              }
            } else if (what === 'release') await client.store.release(client.id, mine);
            else if (what === 'leave') await client.store.leave(client.id);
            else await client.store.beat(nodeNamed(client.id), what === 'beat' ? LONG : 0, nobody);
          });
          const writes = await db.many(
            z.object({ shard: z.int(), epoch: z.int(), by: z.string() }),
            'select shard, epoch, by from writes order by n',
          );
          for (const { shard, epoch, by } of writes) assert.equal(granted.get(`${shard}@${epoch}`), by);
          for (const shard of [0, 1, 2, 3]) {
            const epochs = writes.filter((write) => write.shard === shard).map(({ epoch }) => epoch);
            assert.deepEqual(
              epochs,
              [...epochs].sort((x, y) => x - y),
              'a write came after one of a later epoch',
            );
          }
          assert.deepEqual(problems, []);
        }),
        { numRuns: 25 },
      );
    } finally {
      await Promise.all(clients.map(({ db }) => db.close()));
    }
  });

  async function inLanes<T>(lanes: number, items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
    const queue = [...items];
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
      }),
    );
  }

  test('a clock of the server that is put back by an hour does not keep the shards of the dead', async () => {
    const { store, db } = await fresh();
    await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const [lease] = await store.take('a', shardsOf(2), COUNT);
    assert.ok(lease);
    await db.run("update placement_nodes set expires_at = expires_at + interval '1 hour'");
    // Both look odd until they beat again; only one of them does.
    assert.deepEqual(await store.take('b', shardsOf(2), COUNT), []);
    assert.deepEqual((await store.beat(nodeNamed('b'), LONG, nobody)).nodes, []);
    assert.equal((await store.take('b', shardsOf(2), COUNT)).length, 1);
    await assert.rejects(
      db.tx((tx) => fence(tx, lease)),
      fenced,
    );
  });

  test('nodes and shards as operators see them', async () => {
    const { store, db } = await fresh();
    await store.beat(nodeNamed('a', { roles: ['bank', 'shop'] }), LONG, nobody);
    await store.beat(nodeNamed('b', { draining: true }), 0, nobody);
    await store.take('a', [...shardsOf(0, 1), { service: 'shop', shard: 7 }], COUNT);
    await db.run("update placement_shards set owner = 'b' where service = 'bank' and shard = 1");
    const nodes = await listNodes(db);
    assert.deepEqual(
      nodes.map(({ id, roles, draining, shards }) => ({ id, roles, draining, shards })),
      [
        { id: 'a', roles: ['bank', 'shop'], draining: false, shards: { bank: 1, shop: 1 } },
        { id: 'b', roles: ['bank'], draining: true, shards: { bank: 1 } },
      ],
    );
    assert.ok((nodes[0]?.leaseMs ?? 0) > LONG / 2 && (nodes[1]?.leaseMs ?? 1) <= 0);
    assert.deepEqual(await listServiceShards(db), [
      { service: 'bank', count: COUNT, held: 1 },
      { service: 'shop', count: COUNT, held: 1 },
    ]);
  });

  test('a node that is gone for long is forgotten by the next beat of another', async () => {
    const { store, db } = await fresh();
    await store.beat(nodeNamed('a'), LONG, nobody);
    await db.run("update placement_nodes set expires_at = now() - interval '11 minutes'");
    await store.beat(nodeNamed('b'), LONG, nobody);
    assert.deepEqual(
      (await listNodes(db)).map(({ id }) => id),
      ['b'],
    );
  });
});
