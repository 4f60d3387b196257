/**
 * What does placement cost when there are many? The real placement code over 1,000 nodes and 10 million entities, and the real statements.
 *
 * `npm run soak -- placement [NODES] [ENTITIES]`: which part of the entities a node moves that joins or leaves, for several numbers of
 * shards (fails above 1.1 / N on average), how evenly they lie, what a decision takes; then what a beat, a take, a release and a fenced
 * write take on a database of this machine (not durable: fsync is off) with so many nodes.
 */

import { randomUUID } from 'node:crypto';
import { cpus } from 'node:os';
import type { BeatResult, NodeInfo } from '../../proto/ports/placement.ts';
import { openDb } from '../../storage/db.ts';
import { fence } from '../../storage/fenced.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { startTestServer, testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { simulateMoves } from '../support/placement/simulation.ts';

const nodes = Number(process.argv[2] ?? 1000);
const entities = Number(process.argv[3] ?? 10_000_000);
/** Clusters that are tried, and nodes that would join each. */
const CLUSTERS = 20;
const JOINS = 500;
const out = (line: string) => process.stdout.write(`${line}\n`);

out(`${nodes} nodes, ${entities} entities, ${cpus()[0]?.model ?? 'unknown'} x ${cpus().length}`);
if (entities > 0 && !simulateMoves({ nodes, entities, clusters: CLUSTERS, joins: JOINS, out })) process.exitCode = 1;
await measure();

async function measure(): Promise<void> {
  const server = await startTestServer();
  process.env.TROUPE_TEST_PG = server.socketDir;
  const database = await testDatabase();
  const db = openDb(database.connection, { log: silentLog, name: 'soak', max: 8 });
  try {
    out('\non the database (ms, one after the other; fsync off)');
    for (const [members, count] of [
      [3, 256],
      [nodes, 256],
      [nodes, 4096],
    ] as const) {
      await db.script('truncate placement_nodes, placement_shards');
      const store = leaseStore(db);
      const infos = Array.from({ length: members }, (): NodeInfo => {
        return { id: randomUUID(), roles: ['compute'], version: '1', address: 'host:1', draining: false, weight: 1 };
      });
      const first = infos[0];
      if (first === undefined) return;
      for (const info of infos) await store.beat(info, 600_000, { stamp: '', mark: '' });
      const all = Array.from({ length: count }, (_, shard) => ({ service: 'compute', shard }));
      const takeAll = await timed(() => store.take(first.id, all, count), 1);
      await db.script('analyze placement_nodes; analyze placement_shards');
      let view: BeatResult = await store.beat(first, 600_000, { stamp: '', mark: '' });
      const wholeView = await timed(() => store.beat(first, 600_000, { stamp: '', mark: '' }), 20);
      const beat = await timed(async () => {
        view = await store.beat(first, 600_000, view);
      }, 300);
      const shards = all.slice(0, Math.max(1, Math.round(count / members)));
      let leases = await store.take(first.id, shards, count);
      const take = await timed(async () => {
        leases = await store.take(first.id, shards, count);
      }, 100);
      const releases: number[] = [];
      for (let n = 0; n < 50; n++) {
        releases.push(...(await timed(() => store.release(first.id, leases), 1)));
        leases = await store.take(first.id, shards, count);
      }
      out(`  ${members} nodes, ${count} shards`);
      spread('beat, no news', beat);
      spread('beat, all news', wholeView);
      spread(`take ${shards.length}`, take);
      spread(`release ${shards.length}`, releases);
      spread(`take all ${count}`, takeAll);
      const members64 = infos.slice(0, 64);
      const views = new Map<string, BeatResult>();
      const beatOf = async (info: NodeInfo) => {
        views.set(info.id, await store.beat(info, 600_000, views.get(info.id) ?? { stamp: '', mark: '' }));
      };
      for (const info of members64) await beatOf(info);
      const beats = await flood(members64, 2000, beatOf);
      out(`    beats from 8 connections: ${beats.toFixed(0)}/s; ${members} nodes need ${(members / 1.5).toFixed(0)}/s`);
      if (members === 3) await fences(store, first);
    }
  } finally {
    await db.close();
    await database.close();
    await server.stop();
  }

  async function fences(store: ReturnType<typeof leaseStore>, node: NodeInfo): Promise<void> {
    await db.script(
      'create table if not exists soak (id int primary key, n int); insert into soak select n, 0 from generate_series(1, 64) n',
    );
    const leases = await store.take(node.id, [{ service: 'compute', shard: 0 }], 256);
    const lease = leases[0];
    if (lease === undefined) return;
    const write = (fenced: boolean, id: number) =>
      db.tx(async (tx) => {
        if (fenced) await fence(tx, lease);
        await tx.run('update soak set n = n + 1 where id = $1', [id]);
      });
    const [bare, guarded]: [number[], number[]] = [[], []];
    for (let n = 0; n < 500; n++) {
      bare.push(...(await timed(() => write(false, 1), 1)));
      guarded.push(...(await timed(() => write(true, 1), 1)));
    }
    spread('write', bare);
    spread('fenced write', guarded);
    const ids = Array.from({ length: 64 }, (_, n) => n + 1);
    for (const [what, fenced] of [
      ['writes', false],
      ['fenced writes of one shard', true],
    ] as const) {
      out(`    ${what} from 8 connections: ${(await flood(ids, 2000, (id) => write(fenced, id))).toFixed(0)}/s`);
    }
  }
}

/** Works per second, eight at a time. */
async function flood<T>(items: readonly T[], count: number, work: (item: T) => Promise<void>): Promise<number> {
  const began = performance.now();
  let n = 0;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let item = items[n++ % items.length]; n <= count && item !== undefined; item = items[n++ % items.length]) {
        await work(item);
      }
    }),
  );
  return (count * 1000) / (performance.now() - began);
}

async function timed(work: () => Promise<unknown>, times: number): Promise<number[]> {
  const taken: number[] = [];
  for (let n = 0; n < times; n++) {
    const began = performance.now();
    await work();
    taken.push(performance.now() - began);
  }
  return taken;
}

function spread(what: string, values: readonly number[]): void {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number) => (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(2);
  out(`    ${what.padEnd(16)} p50 ${at(0.5)}, p99 ${at(0.99)}`);
}
