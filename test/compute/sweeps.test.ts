/** What a node reads of containers: those of its shards, and what changed of them. */
import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Sweeps } from '../../actors/compute/container/sweeps.ts';
import { COMPUTE_CONTAINER } from '../../actors/compute/placed.ts';
import { newId } from '../../proto/ids.ts';
import type { HeldShards } from '../../proto/ports/placement.ts';
import { insertContainer, setDesired, setSshEnabled } from '../../storage/compute/containers.ts';
import { forgetContainer } from '../../storage/compute/deleted.ts';
import { changedOutlines, containerOutlines } from '../../storage/compute/outlines.ts';
import type { Db } from '../../storage/db.ts';
import { shardOf } from '../../supervision/placement/index.ts';
import { movableClock } from '../support/clock.ts';
import { testDatabase } from '../support/database/database.ts';
import { memoryEngine } from '../support/engine/memory-engine.ts';
import { keptLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const ALL: HeldShards = { shards: [0], count: 1 };
const shardIn = (id: string, count: number) => shardOf(COMPUTE_CONTAINER.kind, id, count);

async function setting(t: TestContext) {
  const database = await testDatabase();
  t.after(() => database.close());
  return database.db;
}

async function add(db: Db): Promise<string> {
  const id = newId();
  await db.tx((tx) =>
    insertContainer(tx, {
      ...{ id, userId: newId(), name: 'box', instanceType: 'tiny', memoryMb: 128, storageGb: 1 },
      ...{ image: null, pullPolicy: 'IfNotPresent', mountPaths: ['/root'], sshEnabled: true },
    }),
  );
  return id;
}

const addMany = (db: Db, count: number) => Promise.all(Array.from({ length: count }, () => add(db)));
/** A mark after which nothing changed: later than all transactions that run on the server, in other databases, too. */
async function quietMark(db: Db, from?: string): Promise<string> {
  let mark = from ?? (await containerOutlines(db, ALL)).mark;
  await until(
    async () => {
      const changed = await changedOutlines(db, ALL, mark, []);
      mark = changed.mark;
      return changed.rows.length === 0;
    },
    { what: 'nothing changed' },
  );
  return mark;
}

const idsOf = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id).sort();

suite('rows of containers', () => {
  test('are those of the shards that are asked for, into however many the service is cut', async (t) => {
    const db = await setting(t);
    const ids = await addMany(db, 300);
    for (const count of [1, 7, 16, 256, 1000, 4096, 8192, 12_288]) {
      const shards = [...new Set(ids.slice(0, 100).map((id) => shardIn(id, count)))];
      const own = ids.filter((id) => shards.includes(shardIn(id, count))).sort();
      assert.deepEqual(idsOf((await containerOutlines(db, { shards, count })).rows), own, `${count} shards`);
    }
    assert.deepEqual((await containerOutlines(db, { shards: [], count: 256 })).rows, []);
  });

  test('are found by an index', async (t) => {
    const db = await setting(t);
    await addMany(db, 10);
    const line = z.object({ 'QUERY PLAN': z.string() });
    const plan = await db.tx(async (tx) => {
      await tx.run('set local enable_seqscan = off');
      return tx.many(line, 'explain select id from containers where shard_hash % 4096 = any($1::bigint[])', [[1, 2]]);
    });
    assert.match(JSON.stringify(plan), /containers_by_part/);
  });

  test('are read again when they changed since, whatever changed them, and those that are named', async (t) => {
    const db = await setting(t);
    const [first, second, third] = [await add(db), await add(db), await add(db)];
    const mark = await quietMark(db);
    await setSshEnabled(db, first, false);
    await db.run('update containers set name = $2 where id = $1', [second, 'renamed']);
    const fourth = await add(db);
    const changed = await changedOutlines(db, ALL, mark, [third, newId()]);
    assert.deepEqual(idsOf(changed.rows), [first, second, third, fourth].sort());
    await quietMark(db);
    const count = 256;
    const others: HeldShards = { shards: [(shardIn(first, count) + 1) % count], count };
    assert.ok(!idsOf((await changedOutlines(db, others, mark, [])).rows).includes(first));
  });

  test('are not missed when a change is committed after a later one was seen', async (t) => {
    const db = await setting(t);
    const [slow, quick] = [await add(db), await add(db)];
    let mark = await quietMark(db);
    await db.tx(async (tx) => {
      await setSshEnabled(tx, slow, false);
      await setSshEnabled(db, quick, false);
      const seen = await changedOutlines(db, ALL, mark, []);
      assert.deepEqual(idsOf(seen.rows), [quick]);
      mark = seen.mark;
    });
    assert.ok(idsOf((await changedOutlines(db, ALL, mark, [])).rows).includes(slow));
  });

  test('with changes from another server, whose transactions have higher numbers, are not read each time', async (t) => {
    const db = await setting(t);
    const id = await add(db);
    await db.script(`alter table containers disable trigger containers_changed;
      update containers set changed = '99999999999';
      alter table containers enable trigger containers_changed`);
    const { rows, mark } = await containerOutlines(db, ALL);
    assert.deepEqual(idsOf(rows), [id]);
    const later = await quietMark(db, mark);
    await setSshEnabled(db, id, false);
    assert.deepEqual(idsOf((await changedOutlines(db, ALL, later, [])).rows), [id]);
  });
});

test('a look asks for what changed and what was not settled; the engine for no more', async (t) => {
  const db = await setting(t);
  const engine = memoryEngine();
  t.after(() => engine.close());
  const asked: (readonly string[] | undefined)[] = [];
  const count = 16;
  const [id, other] = [await add(db), await add(db)];
  const held = { shards: [shardIn(id, count)], count };
  const told: string[] = [];
  const sweeps = new Sweeps(
    {
      db,
      engine: {
        ...engine,
        list: (ids) => {
          asked.push(ids);
          return engine.list(ids);
        },
      },
      placement: {
        held: () => held,
        holds: (_kind, one) => held.shards.includes(shardIn(one, count)),
      },
      log: keptLog(),
      clock: movableClock(),
    },
    (one) => told.push(one),
    { problem: undefined, connections: 0 },
  );
  const look = async () => {
    asked.length = 0;
    told.length = 0;
    await sweeps.look(new AbortController().signal);
    return { asked: [...asked], told: [...told] };
  };
  const isAlone = shardIn(id, count) !== shardIn(other, count);
  const own = isAlone ? [id] : [id, other].sort();

  // The first is at all; what is to run and does not is unsettled until it is.
  const first = await look();
  assert.deepEqual([first.asked, first.told.sort()], [[undefined], own]);
  const again = await look();
  assert.deepEqual([again.asked.map((ids) => [...(ids ?? [])].sort()), again.told.sort()], [[own], own]);
  for (const one of own) await setDesired(db, one, 'stopped', 'stopped');
  const settled = () => until(async () => isDeepStrictEqual(await look(), { asked: [[]], told: [] }), { what: 'calm' });
  await settled();

  await setDesired(db, id, 'running', 'pending');
  assert.deepEqual(await look(), { asked: [[id]], told: [id] });
  await setDesired(db, id, 'deleted', 'stopped');
  assert.deepEqual(await look(), { asked: [[id]], told: [id] });
  await forgetContainer(db, id);
  assert.deepEqual(await look(), { asked: [[id]], told: [] });
  await settled();

  sweeps.changed(id);
  const foreign = [...'abcdefgh']
    .map((letter) => letter.repeat(12))
    .find((one) => !held.shards.includes(shardIn(one, count)));
  sweeps.changed(foreign ?? '');
  assert.deepEqual(told, [id]);
  assert.deepEqual((await look()).asked, [[id]]);
});
