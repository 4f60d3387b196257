/**
 * What do a lease, a heartbeat, a subscription, a message and an entity cost as nodes and entities grow?
 *
 * `npm run soak -- scale [ENTITIES] [ASK_MICROSECONDS]`: the real placement code with 1, 10, 100 and 1,000 nodes and 10 million entities, the
 * real statements on a database of this machine (not durable), subscriptions on a real nats-server. Prints what was measured, and the table
 * that follows from it. ASK_MICROSECONDS: processor time of a remote ask at both ends, as `npm run bench -- cluster` measures it.
 */

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { connect } from '@nats-io/transport-node';
import type { BeatResult, NodeInfo } from '../../proto/ports/placement.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { type EntityKind, entities as entitiesOf, start, stop, stopped } from '../../supervision/index.ts';
import { TIMINGS } from '../../supervision/placement/index.ts';
import { shardOf } from '../../supervision/placement/shards.ts';
import { ClusterView } from '../../supervision/placement/view.ts';
import { startNats } from '../support/bus/nats-server.ts';
import { percentile } from '../support/cluster/history.ts';
import { startTestServer, testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { pause } from '../support/pause.ts';
import { assigned } from '../support/placement/assigned.ts';

const entityCount = Number(process.argv[2] ?? 10_000_000);
const askUs = Number(process.argv[3] ?? 84);
/** At least four shards a node, and a power of two. */
const CLUSTERS = [
  { nodes: 1, shards: 256 },
  { nodes: 10, shards: 256 },
  { nodes: 100, shards: 1024 },
  { nodes: 1000, shards: 4096 },
] as const;
const SUBSCRIPTIONS = 20_000;
const AWAKE = 100_000;

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');
const out = (line: string) => process.stdout.write(`${line}\n`);

out(
  `${cpus().length} processors (${cpus()[0]?.model ?? 'unknown'}), load ${(loadavg()[0] ?? 0).toFixed(1)}; ${entityCount} entities`,
);
const ends: (() => Promise<void> | void)[] = [];
try {
  await main({ after: (end) => void ends.push(end) });
} finally {
  for (let end = ends.pop(); end !== undefined; end = ends.pop()) await end();
}

async function main(t: Parameters<typeof startNats>[0]): Promise<void> {
  const awake = await awakeBytes();
  const subscription = await subscriptionBytes(t);
  const server = await startTestServer();
  t.after(() => server.stop());
  process.env.TROUPE_TEST_PG = server.socketDir;
  const database = await testDatabase();
  t.after(() => database.close());
  const store = leaseStore(database.db);
  out(`an entity that is awake: ${awake.toFixed(0)} bytes besides its state; asleep: none`);
  out(`a subscription: ${subscription.toFixed(0)} bytes of nats-server; a node has 2, whatever it holds`);
  out(`a remote ask: 2 messages of the broker, ${askUs} µs of processor at both ends together; a tell half of it\n`);
  const rows: string[][] = [
    [
      'nodes',
      'shards',
      'entities a node',
      'most',
      'beats/s',
      'a beat',
      'database',
      'first view',
      'view kept',
      'a decision',
      'asked elsewhere',
      'a million asks/s',
    ],
  ];
  for (const { nodes, shards } of CLUSTERS) {
    const infos = Array.from({ length: nodes }, (): NodeInfo => {
      return {
        id: randomUUID(),
        roles: ['compute'],
        version: '0.1.0',
        address: 'host-of-a-node:12345',
        draining: false,
        weight: 1,
      };
    });
    await database.db.script('truncate placement_nodes, placement_shards');
    for (const info of infos) await store.beat(info, 600_000, { stamp: '', mark: '' });
    const [first] = infos;
    if (first === undefined) throw new RangeError('no nodes');
    const owners = assigned(
      'compute',
      shards,
      infos.map(({ id }) => id),
    );
    for (const { id } of infos) {
      const own = owners.flatMap((owner, shard) => (owner === id ? [{ service: 'compute', shard }] : []));
      await store.take(id, own, shards);
    }
    await database.db.script('analyze placement_nodes; analyze placement_shards');
    const view = await store.beat(first, 600_000, { stamp: '', mark: '' });
    const beatMs = await beats(store, first, view);
    const kept = viewBytes(first, shards, view);
    const began = process.cpuUsage();
    for (let n = 0; n < 10; n++)
      assigned(
        'compute',
        shards,
        infos.map(({ id }) => id),
      );
    const decisionMs = process.cpuUsage(began).user / 10_000;
    const held = spread(owners, shards);
    const beatsPerSecond = (nodes * 1000) / TIMINGS.beatMs;
    const elsewhere = 1 - 1 / nodes;
    rows.push([
      ...[String(nodes), String(shards), count(percentile(held, 0.5)), count(Math.max(...held))],
      ...[beatsPerSecond.toFixed(1), `${beatMs.toFixed(2)} ms`, `${((beatsPerSecond * beatMs) / 10).toFixed(1)} %`],
      ...[
        `${(JSON.stringify(view).length / 1024).toFixed(0)} KiB`,
        `${(kept / 1024).toFixed(0)} KiB`,
        `${decisionMs.toFixed(1)} ms`,
      ],
      ...[`${(100 * elsewhere).toFixed(1)} %`, `${(elsewhere * askUs).toFixed(0)} processors`],
    ]);
  }
  for (const row of rows)
    out(row.map((cell, at) => cell.padStart(Math.max(...rows.map((one) => one[at]?.length ?? 0)))).join('  '));
  out('\ndatabase: of one connection that waits for each answer, so an upper bound of the processor time.');
}

/** Entities of each node. */
function spread(owners: readonly (string | undefined)[], shards: number): number[] {
  const inShard = new Uint32Array(shards);
  for (let n = 0; n < entityCount; n++) {
    const shard = shardOf('compute/container', `c${n.toString(36).padStart(11, '0')}`, shards);
    inShard[shard] = (inShard[shard] ?? 0) + 1;
  }
  const held = new Map<string, number>();
  for (const [shard, owner = ''] of owners.entries()) held.set(owner, (held.get(owner) ?? 0) + (inShard[shard] ?? 0));
  return [...held.values()];
}

/** Median of a beat without news, ms. */
async function beats(store: ReturnType<typeof leaseStore>, node: NodeInfo, begin: BeatResult): Promise<number> {
  let view = begin;
  const taken: number[] = [];
  for (let n = 0; n < 200; n++) {
    const began = performance.now();
    view = await store.beat(node, 600_000, view);
    taken.push(performance.now() - began);
  }
  return percentile(taken, 0.5);
}

/** What a node keeps of the others. */
function viewBytes({ draining: _, ...self }: NodeInfo, shards: number, view: BeatResult): number {
  const text = JSON.stringify(view);
  const before = heap();
  const kept = Array.from({ length: 20 }, () => {
    const one = new ClusterView({ ...self, draining: false }, shards);
    const { nodes, shards: states, stamp, mark }: BeatResult = JSON.parse(text);
    one.update({ nodes, stamp, mark, shards: states }, self.roles);
    one.assignment('compute');
    return one;
  });
  return (heap() - before) / kept.length;
}

/** Of the runtime, for an entity without a state. */
async function awakeBytes(): Promise<number> {
  const system = start({ log: silentLog });
  const kind: EntityKind<null, null> = {
    kind: 'scale/entity',
    sleepAfterMs: 3_600_000,
    activate: () => null,
    handle: (state) => state,
  };
  const all = entitiesOf(system, kind);
  const before = heap();
  for (let n = 0; n < AWAKE; n++) all.tell(`c${n.toString(36).padStart(11, '0')}`, null);
  while (all.awake() < AWAKE) await new Promise((resolve) => setImmediate(resolve));
  await pause(500, 'watch');
  const bytes = (heap() - before) / AWAKE;
  stop(system);
  await stopped(system);
  return bytes;
}

/** Memory of nats-server for one more subscription. */
async function subscriptionBytes(t: Parameters<typeof startNats>[0]): Promise<number> {
  const nats = await startNats(t, { jetStream: false });
  const connection = await connect({ servers: nats.server });
  const resident = () => {
    const [, kilobytes] = /VmRSS:\s+([0-9]+)/.exec(readFileSync(`/proc/${nats.pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes) * 1024;
  };
  await connection.flush();
  const before = resident();
  for (let n = 0; n < SUBSCRIPTIONS; n++)
    connection.subscribe(`node.n${n.toString(36).padStart(11, '0')}.>`, { callback: () => {} });
  await connection.flush();
  const bytes = (resident() - before) / SUBSCRIPTIONS;
  await connection.close();
  return bytes;
}

function heap(): number {
  if (typeof collect === 'function') collect();
  return process.memoryUsage().heapUsed;
}

function count(value: number): string {
  return value.toLocaleString('en');
}
