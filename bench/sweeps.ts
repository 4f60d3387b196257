/**
 * What does a node of a large cluster read of the containers in each round, beside reading all of them?
 *
 * `npm run bench -- sweeps [NODES] [ROWS...]`: one node of NODES (1,000) with 4,096 shards, and 10,000, 100,000 and 1,000,000 rows. Everything is
 * settled; 1 row of 10,000 changes between two looks. `all rows`: all are read and filtered here. `own rows`: a sweep, once a minute. `changed
 * rows`: a look, every five seconds. Milliseconds of a round; processor time of this process, and of the backend that it asks.
 */
import { cpus } from 'node:os';
import { z } from 'zod';
import { Sweeps } from '../actors/compute/container/sweeps.ts';
import { COMPUTE_CONTAINER } from '../actors/compute/placed.ts';
import type { HeldShards } from '../proto/ports/placement.ts';
import { type Db, openDb } from '../storage/db.ts';
import { shardOf } from '../supervision/placement/index.ts';
import { memoryEngine } from '../test/support/engine/memory-engine.ts';
import { silentLog } from '../test/support/log.ts';
import { processorMs } from '../test/support/processor.ts';

const SHARDS = 4096;

async function main(nodes: number, sizes: readonly number[]): Promise<void> {
  const { startTestServer, testDatabase } = await import('../test/support/database/database.ts');
  const server = await startTestServer();
  process.env.TROUPE_TEST_PG = server.socketDir;
  try {
    process.stdout.write(`${cpus()[0]?.model}, ${cpus().length} processors, Node ${process.version}\n\n`);
    process.stdout.write(
      '| rows | read | rows of a round | ms | processor of the process | of PostgreSQL |\n|---|---|---|---|---|---|\n',
    );
    for (const size of sizes) {
      const database = await testDatabase();
      // One connection, so that its backend did all.
      const db = openDb(database.connection, {
        log: silentLog,
        name: 'bench',
        max: 1,
        limits: { statementMs: 600_000 },
      });
      try {
        await fill(db, size);
        await measure(db, size, nodes);
      } finally {
        await db.close();
        await database.close();
      }
    }
  } finally {
    await server.stop();
  }
}

async function fill(db: Db, size: number): Promise<void> {
  const columns =
    'id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths, ssh_enabled';
  for (let from = 0; from < size; from += 50_000) {
    await db.run(
      `insert into containers (${columns}, desired, status)
       select 'c' || substr(md5(n::text), 1, 11), 'u' || n / 3, 1 + n % 3, 'box', 'tiny', 512, 10, 'Always', '{/root}', true,
         'stopped', 'stopped'
       from generate_series($1::int, $2::int) as n on conflict do nothing`,
      [from, Math.min(size, from + 50_000) - 1],
    );
  }
  await db.script('vacuum analyze containers');
}

async function measure(db: Db, size: number, nodes: number): Promise<void> {
  const engine = memoryEngine();
  const own: HeldShards = {
    shards: Array.from({ length: Math.max(1, Math.round(SHARDS / nodes)) }, (_, n) => (n * 1021) % SHARDS),
    count: SHARDS,
  };
  const all: HeldShards = { shards: Array.from({ length: SHARDS }, (_, shard) => shard), count: SHARDS };
  const shards = new Set(own.shards);
  const sweepsOf = (held: HeldShards) =>
    new Sweeps(
      {
        ...{ db, engine, log: silentLog },
        clock: { now: Date.now },
        placement: {
          held: () => held,
          holds: (_kind, id) => shards.has(shardOf(COMPUTE_CONTAINER.kind, id, SHARDS)),
        },
      },
      unused,
      { problem: undefined, connections: 0 },
    );
  const { signal } = new AbortController();
  const [everything, mine] = [sweepsOf(all), sweepsOf(own)];
  const ids = z.object({ count: z.number() });
  const mineCount = await db.one(
    ids,
    'select count(*) as count from containers where shard_hash % 4096 = any($1::bigint[])',
    [[...own.shards]],
  );
  await rounds(db, size, { what: 'all rows', rows: size, times: 3 }, () => everything.sweep(signal));
  await rounds(db, size, { what: 'own rows', rows: mineCount?.count ?? 0, times: 20 }, () => mine.sweep(signal));
  const changes = Math.max(1, Math.round(size / 10_000));
  let next = 0;
  const change = () => {
    const values = [next, next + changes - 1];
    next += changes;
    return db.run(
      `update containers set status_since = now()
       where id in (select 'c' || substr(md5(n::text), 1, 11) from generate_series($1::int, $2::int) n)`,
      values,
    );
  };
  await rounds(db, size, { what: 'changed rows', rows: changes, times: 50 }, () => mine.look(signal), change);
  await engine.close();
}

interface Measured {
  readonly what: string;
  readonly rows: number;
  readonly times: number;
}

async function rounds(
  db: Db,
  size: number,
  { what, rows, times }: Measured,
  round: () => Promise<void>,
  between: () => Promise<unknown> = async () => {},
): Promise<void> {
  const pid = (await db.one(z.object({ pid: z.number() }), 'select pg_backend_pid() as pid'))?.pid ?? 0;
  await round();
  const walls: number[] = [];
  let [own, backend] = [0, 0];
  for (let n = 0; n < times; n++) {
    await between();
    const [began, used, before] = [performance.now(), process.cpuUsage(), processorMs(pid)];
    await round();
    walls.push(performance.now() - began);
    const { user, system } = process.cpuUsage(used);
    own += (user + system) / 1000;
    backend += processorMs(pid) - before;
  }
  const median = walls.sort((a, b) => a - b)[Math.floor(times / 2)] ?? 0;
  const cells = [
    size.toLocaleString('en'),
    what,
    rows.toLocaleString('en'),
    ...[median, own / times, backend / times].map(ms),
  ];
  process.stdout.write(`| ${cells.join(' | ')} |\n`);
}

const ms = (value: number) => value.toFixed(value < 100 ? 1 : 0);

function unused(): never {
  throw new TypeError('nothing is unsettled here');
}

const [nodes = 1000, ...sizes] = process.argv.slice(2).map(Number);
await main(nodes, sizes.length > 0 ? sizes : [10_000, 100_000, 1_000_000]);
