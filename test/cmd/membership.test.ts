import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CliError } from '../../cmd/config/cli-error.ts';
import { type MembershipOptions, openMembership } from '../../cmd/node/membership.ts';
import { newId } from '../../proto/ids.ts';
import { NODE_FORMAT, type NodeInfo } from '../../proto/ports/placement.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { listNodes, listServiceShards } from '../../storage/placement/nodes.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const ROLES = ['auth', 'shop'];
const SERVICES = ROLES.map((service) => ({ service, count: 1024, held: 1024 }));
const UNKNOWN = { stamp: '', mark: '' };
/** Another process on the database, as its lease shows it. */
const other: NodeInfo = {
  id: newId(),
  roles: ['auth'],
  version: '0',
  address: 'elsewhere:7',
  draining: false,
  weight: 1,
};

async function setting(t: TestContext) {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  const store = leaseStore(db);
  /** A process that has not joined yet, and the lines it shows. */
  const open = async (options: Partial<MembershipOptions> = {}) => {
    const system = start({ log: silentLog });
    const bus = embeddedBus({ store: streamStore(db), log: silentLog });
    const lines: string[] = [];
    t.after(async () => {
      stop(system);
      await stopped(system);
      await bus.close();
    });
    const membership = await openMembership({
      ...{ db, system, bus, isShared: false, log: silentLog, roles: ROLES },
      onProgress: (line) => lines.push(line),
      ...options,
    });
    let left: Promise<void> | undefined;
    const leave = () => (left ??= membership.leave());
    t.after(leave);
    return { join: () => membership.join(), leave, lines };
  };
  const ids = async () => (await listNodes(db)).map(({ id }) => id);
  return { db, store, open, ids };
}

function needsNats(error: unknown): boolean {
  assert.ok(error instanceof CliError, String(error));
  assert.match(error.message, /^Another Troupe \(.+\) runs on this database.*set NATS_URL/);
  return true;
}

test('a process alone holds everything once it has joined, and nothing is left of it when it has gone', async (t) => {
  const { db, open } = await setting(t);
  const one = await open();
  await one.join();
  assert.deepEqual(await listServiceShards(db), SERVICES);
  await one.leave();
  assert.deepEqual(await listNodes(db), []);
  assert.deepEqual(
    await listServiceShards(db),
    SERVICES.map((one) => ({ ...one, held: 0 })),
  );
  // The next one is not told to wait.
  const next = await open();
  await next.join();
  assert.deepEqual([next.lines, await listServiceShards(db)], [[], SERVICES]);
});

test('a start on the folder of a process that was killed ends its lease and waits for nothing', async (t) => {
  const { db, store, open, ids } = await setting(t);
  const nodeFile = join(await tempDir(t), 'node-id');
  await store.beat(other, 600_000, UNKNOWN);
  const all = Array.from({ length: 1024 }, (_, shard) => ({ service: 'auth', shard }));
  assert.equal((await store.take(other.id, all, 1024)).length, 1024);
  await writeFile(nodeFile, `${other.id}\n`);

  const next = await open({ nodeFile });
  await next.join();
  assert.deepEqual([next.lines, await listServiceShards(db)], [[], SERVICES]);
  assert.deepEqual(await ids(), [(await readFile(nodeFile, 'utf8')).trim()]);
});

test('without a broker a start waits out the lease of a process that died', async (t) => {
  const { db, store, open } = await setting(t);
  await store.beat(other, 500, UNKNOWN);
  const nodeFile = join(await tempDir(t), 'node-id');
  await writeFile(nodeFile, 'cut o');
  const next = await open({ nodeFile });
  await next.join();
  assert.deepEqual(next.lines, ['waiting: elsewhere:7 ran on this database a moment ago, or still does']);
  assert.deepEqual(await listServiceShards(db), SERVICES);
});

test('without a broker a second process is refused with what to do, and the first one goes on', async (t) => {
  const { store, open, ids } = await setting(t);
  await store.beat(other, 600_000, UNKNOWN);
  const timings = { ttlMs: 300, beatMs: 100 };
  await assert.rejects(open({ timings }), needsNats);
  await assert.rejects(open({ isLeaving: () => true }), /^CliError: Stopped while waiting/);
  assert.deepEqual(await ids(), [other.id]);
});

test('of two without a broker that start at once, at least one is refused', async (t) => {
  const { open } = await setting(t);
  const both = [await open(), await open()];
  const results = await Promise.allSettled(both.map(({ join }) => join()));
  const refused = results.filter((result) => result.status === 'rejected');
  assert.ok(refused.length >= 1, 'two processes that cannot talk serve one database');
  for (const { reason } of refused) needsNats(reason);
});

test('a process that cuts the entities into another number of shards is refused with what to do, also when both begin', async (t) => {
  const { db, open, ids } = await setting(t);
  const refusal = (error: unknown) => {
    assert.ok(error instanceof CliError, String(error));
    assert.match(
      error.message,
      /cut into (64|256) shards, not (64|256)\..*set CLUSTER_SHARDS=(64|256), or leave it out/,
    );
    return true;
  };
  const [one, late] = [await open({ isShared: true, shards: 64 }), await open({ isShared: true, shards: 256 })];
  await one.join();
  await assert.rejects(late.join(), refusal);
  await late.leave();
  await assert.rejects(open({ isShared: true, shards: 256 }), refusal);
  assert.equal((await ids()).length, 1);
  assert.deepEqual(
    await listServiceShards(db),
    ROLES.map((service) => ({ service, count: 64, held: 64 })),
  );
  await one.leave();
});

test('a process that is not told a number of shards keeps the number of the database', async (t) => {
  const { db, open } = await setting(t);
  const one = await open({ isShared: true, shards: 64 });
  await one.join();
  const two = await open({ isShared: true });
  await two.join();
  await one.leave();
  await two.leave();
  const three = await open();
  await three.join();
  assert.deepEqual(
    await listServiceShards(db),
    ROLES.map((service) => ({ service, count: 64, held: 64 })),
  );
});

test('of two processes the one of three times the weight holds three times as many shards', async (t) => {
  const { db, open } = await setting(t);
  const [big, small] = [await open({ isShared: true, weight: 3 }), await open({ isShared: true })];
  await big.join();
  await small.join();
  await until(async () => {
    const held = (await listNodes(db)).map(({ shards }) => shards.auth ?? 0);
    const [most = 0, least = 0] = held.sort((a, b) => b - a);
    return most + least === 1024 && most > 2.4 * least && most < 3.7 * least;
  });
});

test('with a broker several share the entities', async (t) => {
  const { db, open, ids } = await setting(t);
  const [one, two] = [await open({ isShared: true }), await open({ isShared: true })];
  await one.join();
  await two.join();
  assert.equal((await ids()).length, 2);
  await one.leave();
  await two.leave();
  assert.deepEqual(await listNodes(db), []);
});

test('beside a node whose messages it could not read a process does not start, and says why', async (t) => {
  const { db, store, open, ids } = await setting(t);
  await store.beat(other, 600_000, UNKNOWN);
  await db.run('update placement_nodes set format = 1');
  await assert.rejects(
    open({ isShared: true }),
    new RegExp(
      `^CliError: The node at elsewhere:7 \\(version 0\\) speaks format 1 with other nodes, this version \\(.+\\) only ${NODE_FORMAT}: `,
    ),
  );
  assert.deepEqual(await ids(), [other.id]);
  // Once that one is gone, it may.
  await db.run("update placement_nodes set expires_at = now() - interval '1 second'");
  await (await open({ isShared: true })).join();
});
